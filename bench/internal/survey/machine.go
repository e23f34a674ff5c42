package survey

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Machine says where the figures are from.
type Machine struct {
	Processors int
	Model      string // of the processor, empty if unknown
	System     string
	Go         string
	Postgres   string        // version, empty if unknown
	Sync       time.Duration // median of a commit of one row to a bare Pebble
	Day        time.Time
}

func describe() Machine {
	return Machine{
		Processors: runtime.NumCPU(), Model: processor(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Postgres: postgresVersion(), Day: time.Now().UTC(),
	}
}

// processor reads /proc/cpuinfo, where there is one.
func processor() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// postgresVersion is that of the client's tools, which come with the server.
func postgresVersion() string {
	out, err := exec.Command("psql", "--version").Output()
	if err != nil {
		return ""
	}
	if fields := strings.Fields(string(out)); len(fields) > 2 {
		return fields[2]
	}
	return ""
}
