package compile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

const (
	// maxOutput bounds what is kept of what a child writes before it crashes.
	maxOutput = 16 << 10
	// maxAnswer bounds a child's answer: a hundred faults of 4 KiB, each byte written as six.
	maxAnswer = 3 << 20
)

// runChild has a child check a module, or compile it into a folder. It returns when the
// child has ended, whatever the reason.
func runChild(ctx context.Context, req request, code actor.Code) (response, error) {
	self, err := executable()
	if err != nil {
		return response{}, fmt.Errorf("find the program to compile with: %w", err)
	}
	if other := testCompiler(); other != "" {
		self = other
	}
	line, err := json.Marshal(req)
	if err != nil {
		return response{}, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, req.Time, &LimitError{Limit: LimitTime, Time: req.Time})
	defer cancel()
	var answer response
	result := make(chan error, 1)
	go func() {
		// The kernel ends a child with the thread that started it, so that this one
		// may not end before.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var err error
		answer, err = startAndWait(limited, self, req, line, code)
		result <- err
	}()
	err = <-result
	if cause := context.Cause(limited); err != nil && cause != nil && limited.Err() != nil {
		return response{}, cause
	}
	return answer, err
}

func startAndWait(ctx context.Context, self string, req request, line []byte, code actor.Code) (response, error) {
	stdin, lifeline, err := os.Pipe()
	if err != nil {
		return response{}, fmt.Errorf("start the compiler: %w", err)
	}
	defer lifeline.Close()
	answer, complaints := &head{most: maxAnswer}, &tail{most: maxOutput}
	cmd := &exec.Cmd{
		Path: self, Args: []string{childName, childProtocol, string(req.Target)},
		Env: []string{}, Dir: req.Dir,
		Stdin: stdin, Stdout: answer, Stderr: complaints,
		WaitDelay: time.Second,
	}
	isolate(cmd)
	err = cmd.Start()
	stdin.Close()
	if err != nil {
		return response{}, fmt.Errorf("start the compiler: %w", err)
	}
	stop := context.AfterFunc(ctx, func() {
		kill(cmd.Process)
		lifeline.Close() // and with it a write that is under way
	})
	defer stop()
	_, werr := lifeline.Write(append(line, '\n'))
	if werr == nil {
		_, werr = io.Copy(lifeline, io.NewSectionReader(code, 0, code.Size()))
	}
	err = cmd.Wait()
	var r response
	if json.Unmarshal(answer.text, &r) == nil && r != (response{}) {
		return r, r.err(req)
	}
	if err == nil {
		err = errors.Join(errors.New("it said nothing"), werr)
	}
	return response{}, crashed(req, err.Error(), string(complaints.text))
}

// crashed says why a child ended without a result: what Go cannot recover from.
func crashed(req request, problem, output string) error {
	all := problem + output
	switch {
	case strings.Contains(all, "out of memory"), strings.Contains(all, "cannot allocate memory"):
		return &LimitError{Limit: LimitMemory, Memory: req.Memory}
	case strings.Contains(all, "stack exceeds"), strings.Contains(all, "stack overflow"):
		return &LimitError{Limit: LimitStack}
	case strings.Contains(all, "CPU time limit"), strings.Contains(all, "SIGXCPU"):
		return &LimitError{Limit: LimitTime, Time: req.Time}
	}
	return &CrashError{Problem: problem, Output: output}
}

// head keeps the beginning of what is written.
type head struct {
	text []byte
	most int
}

func (h *head) Write(p []byte) (int, error) {
	h.text = append(h.text, p[:min(len(p), h.most-len(h.text))]...)
	return len(p), nil
}

// tail keeps beginning and end of what is written: a crash begins with its reason.
type tail struct {
	text []byte
	most int
}

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - t.most; over > 0 {
		t.text = append(t.text[:t.most/2], bytes.Clone(t.text[t.most/2+over:])...)
	}
	return len(p), nil
}

var _, _ io.Writer = (*head)(nil), (*tail)(nil)
