//go:build unix && !linux

package compile

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

func executable() (string, error) { return os.Executable() }

// isolate gives the child a process group of its own. Its parent's end it knows by
// the end of its standard input.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func kill(p *os.Process) {
	_ = unix.Kill(-p.Pid, unix.SIGKILL) // gone already otherwise
}

// confineProcess sets what the system keeps; memory is left to the watch.
func confineProcess(request) error {
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, priority) // politeness
	return nil
}

const priority = 10
