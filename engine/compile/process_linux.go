package compile

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// executable is this program, also after its file was replaced by a newer one.
func executable() (string, error) { return "/proc/self/exe", nil }

// isolate gives the child a process group of its own, and its parent's end.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func kill(p *os.Process) {
	_ = unix.Kill(-p.Pid, unix.SIGKILL) // gone already otherwise
}

// confineProcess sets the limits that the kernel keeps.
func confineProcess(req request) error {
	// First what is only politeness: it may fail in a sandbox.
	_ = unix.Setpriority(unix.PRIO_PGRP, 0, priority) // all threads: they are the group
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	limits := map[int]uint64{
		unix.RLIMIT_CORE: 0,
		unix.RLIMIT_CPU:  2 + uint64(req.Time.Seconds())*uint64(req.Threads),
	}
	if !raceEnabled { // whose shadow of the memory is data of hundreds of gigabytes
		limits[unix.RLIMIT_DATA] = uint64(req.Memory + dataSlack)
	}
	for what, most := range limits {
		var now unix.Rlimit
		if err := unix.Getrlimit(what, &now); err != nil {
			return err
		}
		most = min(most, now.Max) // a lower one stays, since no limit can be raised
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
	}
	return nil
}

const (
	priority = 10
	// dataSlack is how much more than its memory a child's data may be: the runtime
	// takes address space in large pieces, and gives pages back without it.
	dataSlack = 192 << 20
)
