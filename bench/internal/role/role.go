// Package role runs parts of a benchmark in processes of their own: the program
// starts itself again with a role's name, gives it a specification in JSON on
// standard input and reads what it has to say, in JSON, from standard output.
//
//	parent                                child: PROGRAM role NAME
//	Call, Start ── specification ───────▶ Serve: the role's function
//	            ◀─────────── its answer ─ say(answer)
//	Close       ── end of input ────────▶ its context ends
//
// The end of input also comes when the parent dies, so nothing is left behind.
package role

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/greenroom-run/greenroom/bench/internal/must"
)

// Verb is the first argument of a program that is to play a role; the second is
// the role's name.
const Verb = "role"

// Func plays a role. It reads its specification, and says its answer, or several; a
// role that serves goes on until ctx ends.
type Func func(ctx context.Context, spec json.RawMessage, say func(answer any) error) error

// Roles are roles by name.
type Roles map[string]Func

// Of makes a role of a function from specification to answer, which may fail by package must.
func Of[S, A any](f func(context.Context, S) (A, error)) Func {
	return func(ctx context.Context, raw json.RawMessage, say func(any) error) error {
		var spec S
		if err := json.Unmarshal(raw, &spec); err != nil {
			return fmt.Errorf("read the specification: %w", err)
		}
		answer, err := f(ctx, spec)
		if err != nil {
			return err
		}
		return say(answer)
	}
}

// Serve plays the role of that name on the two streams.
func (rs Roles) Serve(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	f, ok := rs[name]
	if !ok {
		return fmt.Errorf("there is no role %q", name)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewReader(in)
	spec, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the specification: %w", err)
	}
	go func() {
		// Its parent closes it or dies; until then there is nothing to read.
		_, _ = io.Copy(io.Discard, lines)
		cancel()
	}()
	return must.Catch(func() {
		must.Check(f(ctx, spec, func(answer any) error { return json.NewEncoder(out).Encode(answer) }))
	})
}

// Process is a role under way.
type Process struct {
	name   string
	cmd    *exec.Cmd
	input  io.Closer
	stdout io.Reader
	output *json.Decoder // of stdout
	close  sync.Once
	err    error // of close
}

// Start starts a role in a process of its own. When ctx ends it is killed.
// Closing it is the caller's duty.
func Start(ctx context.Context, name string, spec any) (*Process, error) {
	p := &Process{name: name}
	err := must.Catch(func() {
		p.cmd = exec.CommandContext(ctx, must.Get(os.Executable()), Verb, name)
		p.cmd.Stderr = os.Stderr
		input := must.Get(p.cmd.StdinPipe())
		p.input, p.stdout = input, must.Get(p.cmd.StdoutPipe())
		p.output = json.NewDecoder(p.stdout)
		must.Check(p.cmd.Start())
		must.Get(input.Write(append(must.Get(json.Marshal(spec)), '\n')))
	})
	if err != nil {
		err = fmt.Errorf("start role %s: %w", name, err)
		if p.cmd != nil && p.cmd.Process != nil {
			err = errors.Join(err, p.Close())
		}
		return nil, err
	}
	return p, nil
}

// Answer waits for what the role says.
func (p *Process) Answer(answer any) error {
	if err := p.output.Decode(answer); err != nil {
		// It ended without an answer, and has said why on standard error.
		return errors.Join(fmt.Errorf("role %s gave no answer: %w", p.name, err), p.Close())
	}
	return nil
}

// End tells a role that serves to end, which may have something to say then.
func (p *Process) End() { p.input.Close() }

// PID is the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Close ends the role and waits for its process, whose further answers are dropped. It is safe
// twice.
func (p *Process) Close() error {
	p.close.Do(func() {
		p.input.Close()
		_, _ = io.Copy(io.Discard, p.stdout) // a role that has more to say than a pipe holds would not end
		if err := p.cmd.Wait(); err != nil {
			p.err = fmt.Errorf("role %s: %w", p.name, err)
		}
	})
	return p.err
}

// Call plays a role to its end in a process of its own.
func Call[A any](ctx context.Context, name string, spec any) (A, error) {
	var answer A
	p, err := Start(ctx, name, spec)
	if err != nil {
		return answer, err
	}
	if err := p.Answer(&answer); err != nil {
		return answer, err
	}
	return answer, p.Close()
}
