// Package usage reads what processes have used: processor time and memory.
//
// Of other processes it reads /proc; where there is none their figures are
// zero, and tables leave them out.
package usage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// tick is the unit of /proc/PID/stat: the kernel reports hundredths of a second
// to user space whatever it counts in.
const tick = 10 * time.Millisecond

// Self returns the processor time that this process has used.
func Self() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Tree returns the processor time that a process and its descendants have used,
// those that ended included as soon as their parent has waited for them.
func Tree(pid int) time.Duration {
	all := make(map[int]process)
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		if p, ok := parse(text); ok {
			all[p.pid] = p
		}
	}
	var sum int64
	for _, p := range all {
		if descends(all, p.pid, pid) {
			sum += p.own + p.waited
		}
	}
	return time.Duration(sum) * tick
}

// process is a line of /proc/PID/stat.
type process struct {
	pid, parent int
	own, waited int64 // ticks
}

func parse(stat []byte) (process, bool) {
	// pid (name) state ppid … with utime, stime, cutime and cstime as the
	// 14th to the 17th; the name may hold anything.
	end := bytes.LastIndexByte(stat, ')')
	open := bytes.IndexByte(stat, '(')
	if end < 0 || open < 1 {
		return process{}, false
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 15 {
		return process{}, false
	}
	number := func(b []byte) int64 {
		n, _ := strconv.ParseInt(string(b), 10, 64)
		return n
	}
	return process{
		pid: int(number(bytes.TrimSpace(stat[:open]))), parent: int(number(fields[1])),
		own: number(fields[11]) + number(fields[12]), waited: number(fields[13]) + number(fields[14]),
	}, true
}

func descends(all map[int]process, pid, from int) bool {
	for range len(all) { // pids may be reused while they are read: no loop is endless
		if pid == from {
			return true
		}
		p, ok := all[pid]
		if !ok {
			return false
		}
		pid = p.parent
	}
	return false
}

// Memory returns what Go's heap and stacks of this process have after a collection.
func Memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC() // the first one leaves what it swept to the second
	runtime.ReadMemStats(&m)
	return m
}

// Resident returns the resident memory of a process in bytes, 0 if unknown.
func Resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}
