package compile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

const (
	// childName, childProtocol and the target are the arguments of a child: the name
	// under which process lists show it, and the form of what both say.
	childName     = "greenroom-compiler"
	childProtocol = "3"
)

// request is the first line on a child's standard input; the module follows, and
// then nothing: the input's end is the end of the parent, or its wish.
type request struct {
	Target  Target        `json:"target"`
	Dir     string        `json:"dir"`
	Key     key           `json:"key"`
	Bytes   int64         `json:"bytes"` // of the module
	Memory  int64         `json:"memory"`
	Decode  int64         `json:"decode"`
	Code    int64         `json:"code"`
	Time    time.Duration `json:"time"`
	Threads int           `json:"threads"`
	// Check is the memory that an instance may begin with: the module is to be checked, and
	// is not compiled. 0: it is to be compiled.
	Check int64 `json:"check,omitempty"`
}

// response is what a child says before it ends.
type response struct {
	Done    bool     `json:"done,omitempty"`
	Verdict *verdict `json:"verdict,omitempty"`
	Limit   Limit    `json:"limit,omitempty"`
	Invalid string   `json:"invalid,omitempty"`
	Crash   string   `json:"crash,omitempty"`
	Output  string   `json:"output,omitempty"`
	Failed  string   `json:"failed,omitempty"` // not the module's fault
}

// verdict is what a child that checks a module says of it.
type verdict struct {
	Cost   uint64        `json:"cost"`
	Faults []actor.Fault `json:"faults,omitempty"`
}

// Serve makes a compiler of the process if it was started as one for modules of the
// target. An engine calls it in its init function: see protocol.md for why
// this is not left to main.
func Serve(t Target, check Checker, prepare Preparer) {
	if len(os.Args) == 3 && os.Args[0] == childName && os.Args[1] == childProtocol && os.Args[2] == string(t) {
		c := &child{out: os.Stdout, check: check, prepare: prepare}
		c.run(os.Stdin)
	}
}

// child is this process as a compiler.
type child struct {
	out     io.Writer
	check   Checker
	prepare Preparer
	once    sync.Once
}

// run serves one request. It does not return.
func (c *child) run(in io.Reader) {
	r := bufio.NewReader(in)
	line, err := r.ReadBytes('\n')
	var req request
	if err == nil {
		err = json.Unmarshal(line, &req)
	}
	if err != nil {
		c.end(response{Failed: "read the request: " + err.Error()})
	}
	c.confine(req)
	code := make([]byte, req.Bytes)
	if _, err := io.ReadFull(r, code); err != nil {
		c.end(response{Failed: "read the module: " + err.Error()})
	}
	go func() {
		_, _ = io.Copy(io.Discard, r) // whatever ends it: nobody waits for the result
		os.Exit(exitAbandoned)
	}()
	if req.Check > 0 {
		cost, found := c.check(code, req.Check)
		c.end(response{Verdict: &verdict{cost, found}})
	}
	c.end(toResponse(compileInto(context.Background(), req, Module{Target: req.Target, Code: bytes.NewReader(code), Prepare: c.prepare})))
}

const exitAbandoned = 3

// end sends the outcome of the request and ends the process.
func (c *child) end(r response) {
	c.once.Do(func() {
		line, err := json.Marshal(r)
		if err == nil {
			_, err = c.out.Write(append(line, '\n'))
		}
		if err != nil {
			os.Exit(exitAbandoned)
		}
		os.Exit(0)
	})
	select {} // another goroutine ends the process
}

// confine bounds the process permanently.
func (c *child) confine(req request) {
	// Compiling is a short burst of garbage: half of the memory is for what is alive.
	debug.SetMemoryLimit(req.Memory * 3 / 4)
	debug.SetMaxStack(int(min(req.Memory/4, 256<<20)))
	debug.SetTraceback("single")
	runtime.GOMAXPROCS(req.Threads)
	if err := confineProcess(req); err != nil {
		c.end(response{Failed: "set the limits of the compiler: " + err.Error()})
	}
	go c.watch(req.Memory)
}

// watch ends the process when it has more memory than it may. It is what tells a
// module's author so in words, and the only bound where the system has none.
func (c *child) watch(most int64) {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(20 * time.Millisecond) {
		metrics.Read(s)
		if int64(s[0].Value.Uint64()-s[1].Value.Uint64()) > most {
			c.end(response{Limit: LimitMemory})
		}
	}
}

func toResponse(err error) response {
	var limit *LimitError
	var invalid *InvalidError
	var crash *CrashError
	switch {
	case err == nil:
		return response{Done: true}
	case errors.As(err, &limit):
		return response{Limit: limit.Limit}
	case errors.As(err, &invalid):
		return response{Invalid: invalid.Problem}
	case errors.As(err, &crash):
		return response{Crash: crash.Problem, Output: crash.Output[:min(len(crash.Output), maxOutput)]}
	}
	return response{Failed: err.Error()}
}

func (r response) err(req request) error {
	switch {
	case r.Done, r.Verdict != nil:
		return nil
	case r.Limit != "":
		e := &LimitError{Limit: r.Limit, Memory: req.Memory, Time: req.Time}
		switch r.Limit {
		case LimitDecode:
			e.Memory = req.Decode
		case LimitCode:
			e.Memory = req.Code
		case LimitMeter:
			e.Memory = MaxPrepared
		}
		return e
	case r.Invalid != "":
		return &InvalidError{Problem: r.Invalid}
	case r.Crash != "":
		return crashed(req, r.Crash, r.Output)
	}
	return fmt.Errorf("the compiler: %s", r.Failed)
}
