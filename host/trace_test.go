package host_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

var rewrite = flag.Bool("rewrite", false, "write what the traces in testdata really give")

// TestTraces runs the scripts of testdata/traces: each command is followed by
// what it answered and by the events that it caused. -rewrite regenerates them.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/traces/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			synctest.Test(t, func(t *testing.T) { got = runTrace(t, string(want)) })
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(want) {
				t.Errorf("%s gives (run with -rewrite to accept):\n%s", file, got)
			}
		})
	}
}

// runTrace returns the script with its outputs as they are. Lines that begin
// with "> " are commands, with "# " comments; all others are output.
func runTrace(t *testing.T, script string) string {
	tr := &trace{store: newFakeStore(), world: hosttest.New(), out: &output{}, gate: newGate()}
	h, err := host.New(host.Config{
		Committer: tr.store, Modules: tr.world, Engine: tr.world,
		Observers: []host.Events{tr.events()}, SettleGrace: 2 * time.Second,
		Limits: host.Limits{StateBytes: 200},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr.host = h
	got := tr.out
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "> "):
			fmt.Fprintln(got, line)
			tr.command(t, strings.Fields(line[2:]))
			tr.tell()
		case strings.HasPrefix(line, "#"), line == "":
			fmt.Fprintln(got, line)
		}
	}
	text := got.String()
	if err := h.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	tr.world.CheckClosed(t)
	return text
}

type trace struct {
	store *fakeStore
	world *hosttest.World
	host  *host.Host
	out   *output

	mu      sync.Mutex
	open    int      // calls in the background
	answers []string // theirs, since the last command
	gate    *gate
}

// start makes a call in the background; its answer is told when it has come.
func (tr *trace) start(name string, call func() (actor.Reply, error)) {
	tr.mu.Lock()
	tr.open++
	tr.mu.Unlock()
	go func() {
		reply, err := call()
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.open--
		answer := fmt.Sprintf("  %s: reply %q", name, reply.Payload.Data)
		if err != nil {
			answer = fmt.Sprintf("  %s: error %s", name, Outcome(err))
		}
		tr.answers = append(tr.answers, answer)
	}()
	synctest.Wait()
}

// tell prints what the background calls were answered, sorted: each caller is a
// goroutine of its own.
func (tr *trace) tell() {
	synctest.Wait()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	slices.Sort(tr.answers)
	for _, a := range tr.answers {
		fmt.Fprintln(tr.out, a)
	}
	tr.answers = nil
}

// output collects text from the host's goroutines and the script's.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (tr *trace) events() host.Events {
	return host.Events{
		Commit: func(e host.CommitEnd) {
			fmt.Fprintf(tr.out, "  commit %s: %s", e.Lane, Outcome(e.Err))
			if e.GroupSize != 1 {
				fmt.Fprintf(tr.out, ", %d turns", e.GroupSize)
			}
			fmt.Fprintln(tr.out)
		},
		Activated:   func(k actor.Key) { fmt.Fprintf(tr.out, "  activated %s\n", k.ID) },
		Deactivated: func(d host.Deactivation) { fmt.Fprintf(tr.out, "  deactivated %s: %s\n", d.Key.ID, d.Reason) },
		InstanceMade: func(e host.InstanceEvent) {
			fmt.Fprintf(tr.out, "  instance made, dedicated=%t\n", e.Dedicated)
		},
		InstanceClosed: func(e host.InstanceEvent) {
			fmt.Fprintf(tr.out, "  instance closed, dedicated=%t\n", e.Dedicated)
		},
		TurnEnd: func(e host.TurnEnd) {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			if tr.open == 0 { // in the background they end in any order
				fmt.Fprintf(tr.out, "  turn end, lane %s, %d run(s)\n", e.Lane, e.Runs)
			}
		},
	}
}

func (tr *trace) command(t *testing.T, args []string) {
	var key actor.Key
	if len(args) > 1 {
		key = actor.Key{App: "app", Type: "T", ID: args[1]}
	}
	switch args[0] {
	case "start": // start NAME ID METHOD [key=KEY] [PAYLOAD]: an invocation in the background
		inv := actor.Invocation{Key: actor.Key{App: "app", Type: "T", ID: args[2]}, Method: args[3]}
		keyAndPayload(&inv, args[4:])
		tr.start(args[1], func() (actor.Reply, error) { return tr.host.Invoke(context.Background(), inv) })
	case "start-delete": // start-delete NAME ID
		key.ID = args[2]
		tr.start(args[1], func() (actor.Reply, error) { return actor.Reply{}, tr.host.Delete(context.Background(), key) })
	case "hold": // commits stay at the store from now on
		tr.store.setHold(make(chan struct{}))
	case "commit": // the store takes the commit that is there
		tr.store.hold <- struct{}{}
	case "release": // and all from now on
		close(tr.store.hold)
		synctest.Wait()
		tr.store.setHold(nil)
	case "pass": // one turn that waits at the gate goes on
		tr.gate.leave <- struct{}{}
	case "deploy", "deploy-elsewhere": // deploy PLACEMENT [schema=N] [migrate] [instance=I]
		tr.deploy(args)
	case "lookups": // how often records were looked up since the last time
		fmt.Fprintf(tr.out, "%d lookups\n", tr.store.takeLookups())
	case "forget": // all records expire
		tr.store.forget()
	case "invoke", "query", "strong": // invoke ID METHOD [key=KEY] [PAYLOAD]
		inv := actor.Invocation{Key: key, Method: args[2], ReadOnly: args[0] != "invoke"}
		if args[0] == "strong" {
			inv.Consistency = actor.ConsistencyStrong
		}
		keyAndPayload(&inv, args[3:])
		reply, err := tr.host.Invoke(context.Background(), inv)
		if err != nil {
			fmt.Fprintf(tr.out, "error %s\n", Outcome(err))
		} else {
			fmt.Fprintf(tr.out, "reply %q\n", reply.Payload.Data)
		}
	case "delete":
		fmt.Fprintf(tr.out, "%s\n", Outcome(tr.host.Delete(context.Background(), key)))
	case "fault": // fault OPERATION FAULT...
		tr.store.plan(args[1], args[2:]...)
	case "write": // write ID FIELD=VALUE: another writer
		field, value, _ := strings.Cut(args[2], "=")
		var n uint64
		fmt.Sscan(value, &n)
		tr.store.write(key, func(r *actor.Row) {
			switch field {
			case "state":
				r.State = actor.EncodedState{Format: actor.FormatJSON, Data: []byte(value)}
			case "generation":
				r.Generation = n
			case "schema":
				r.StateSchema = uint32(n)
			}
		})
	case "row":
		r := tr.store.row(key)
		fmt.Fprintf(tr.out, "row: exists=%t deleted=%t generation=%d schema=%d state=%s\n",
			r.Version != 0, r.Deleted, r.Generation, r.StateSchema, r.State.Data)
	case "view":
		v, err := tr.host.View(context.Background(), key)
		if err != nil {
			fmt.Fprintf(tr.out, "error %s\n", Outcome(err))
			return
		}
		fmt.Fprintf(tr.out, "view: active=%t size=%d", v.Active, v.StateSize)
		for _, e := range v.Entries {
			fmt.Fprintf(tr.out, " %s=%s", e.Key, e.Value)
		}
		fmt.Fprintln(tr.out)
	case "sleep":
		d, err := time.ParseDuration(args[1])
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(d) // the bubble's time
		synctest.Wait()
	case "undeploy":
		tr.world.Remove("app", "T")
	default:
		t.Fatalf("unknown command %q", args[0])
	}
}

func keyAndPayload(inv *actor.Invocation, args []string) {
	for _, arg := range args {
		if idem, ok := strings.CutPrefix(arg, "key="); ok {
			inv.IdempotencyKey = idem
		} else {
			inv.Payload.Data = []byte(arg)
		}
	}
}

func (tr *trace) deploy(args []string) {
	a := hosttest.Actor{
		Placement: args[1],
		Methods: map[string]hosttest.Func{
			"Add": func(t *hosttest.Turn) error {
				n, err := t.Add("n", 1)
				if err != nil {
					return err
				}
				return t.ReplyNumber(n)
			},
			"Same": func(t *hosttest.Turn) error {
				n, err := t.Number("n")
				if err != nil {
					return err
				}
				return errors.Join(t.SetNumber("n", n+1), t.SetNumber("n", n), t.ReplyNumber(n))
			},
			// Once works on an actor that nobody has added to, and fails on others.
			"Once": func(t *hosttest.Turn) error {
				if n, err := t.Add("n", 1); err != nil || n > 1 {
					return errors.Join(err, hosttest.Fail("not_first"))
				}
				return t.ReplyNumber(1)
			},
			"AddThenFail": func(t *hosttest.Turn) error {
				_, err := t.Add("n", 1)
				return errors.Join(err, hosttest.Fail("on_purpose"))
			},
			"AddThenTrap": func(t *hosttest.Turn) error {
				t.Add("n", 1)
				panic("trap on purpose")
			},
			"Hang": func(t *hosttest.Turn) error {
				t.Add("n", 1)
				<-t.Context.Done()
				return nil
			},
			"Grow": func(t *hosttest.Turn) error {
				return errors.Join(t.Set("big", strings.Repeat("x", 300)), t.Set("small", "y"))
			},
			"Gate":  tr.gate.addAfter,
			"Write": func(t *hosttest.Turn) error { return t.SetNumber("n", 1) },
		},
		ReadOnly: map[string]hosttest.Func{
			"View": func(t *hosttest.Turn) error {
				n, err := t.Number("n")
				return errors.Join(err, t.ReplyNumber(n))
			},
			"WriteAnyway": func(t *hosttest.Turn) error { return t.SetNumber("n", 1) },
		},
	}
	for _, arg := range args[2:] {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "schema":
			fmt.Sscan(value, &a.StateSchema)
		case "instance":
			a.Instance = value
		case "migrate":
			a.Migrate = func(t *hosttest.Turn) error {
				if t.Frame.Method != "" || t.Frame.What != abi.WhatMigrate {
					panic("a strange migrate frame")
				}
				return t.SetJSON("migrated_from", fmt.Sprint(t.Frame.StoredSchema))
			}
		}
	}
	if args[0] == "deploy" {
		tr.world.Deploy("app", "T", a)
	} else {
		tr.world.DeployElsewhere("app", "T", a)
	}
}

// Outcome is an error's kind, or what stands for it.
func Outcome(err error) string {
	var guest *actor.GuestError
	var trap *actor.TrapError
	var large *actor.StateTooLargeError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &guest):
		return "guest: " + guest.Error()
	case errors.As(err, &trap):
		return "trap: " + trap.Error()
	case errors.As(err, &large):
		return large.Error()
	}
	if c := actor.AsCondition(err); c != nil {
		return string(c.Kind())
	}
	return err.Error()
}
