package host_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestChainsAreReported: each called turn has its own end, with its own fuel and time, the
// outermost one has what the chain was, and a chain that fails is one line in the log, with its calls.
func TestChainsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var ends []host.TurnEnd
		s := newStage(t, host.Config{
			Logger:    slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			Observers: []host.Events{{TurnEnd: func(e host.TurnEnd) { ends = append(ends, e) }}},
		})
		a := scriptedActor()
		a.Methods["Do"] = func(t *hosttest.Turn) error {
			t.Calls.Fuel().Used += 7
			time.Sleep(time.Second)
			return scripted(t)
		}
		s.world.Deploy("app", "T", a)
		ops := []op{
			{Do: "call", ID: "b", Ops: []op{{Do: "call", ID: "c", Look: true}, {Do: "call", ID: "d", Ops: []op{{Do: "trap"}}}}},
			{Do: "call", ID: "a"}, {Do: "call", ID: "b", Look: true},
		}
		if _, err := s.do(t, "a", ops...); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range ends {
			got = append(got, fmt.Sprintf("%s.%s of %q in %d %s: %v fuel %d runs %d", e.Key.ID, e.Method, e.Caller.ID, e.Depth, e.Lane, e.Duration, e.Fuel, e.Runs))
		}
		want := []string{
			`c.Look of "b" in 2 called: 0s fuel 0 runs 1`, `d.Do of "b" in 2 called: 1s fuel 7 runs 1`, `b.Do of "a" in 1 called: 2s fuel 7 runs 1`,
			`a.Do of "a" in 1 called: 0s fuel 0 runs 0`, `b.Look of "a" in 1 called: 0s fuel 0 runs 1`, `a.Do of "" in 0 warm: 3s fuel 7 runs 1`,
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if chain := ends[len(ends)-1].Chain; chain == nil || *chain != (host.ChainStats{Actors: 4, Calls: 5, Depth: 2}) {
			t.Errorf("%+v", chain)
		}
		if text := log.String(); !strings.Contains(text, `msg="called turn trapped"`) || !strings.Contains(text, "stack=") || strings.Contains(text, "chain failed") {
			t.Errorf("the log is %s", text)
		}
		log.Reset()
		if _, err := s.do(t, "a", append(ops, op{Do: "trap"})...); err == nil {
			t.Error("no error")
		}
		tree := `tree="T b.Do [T c.Look, T d.Do: trap], T a.Do: not_reentrant, T b.Look"`
		if text := log.String(); strings.Count(text, "chain failed") != 1 || !strings.Contains(text, tree) {
			t.Errorf("the log is %s", text)
		}
	})
}

// TestDiscardedRunsOfChainsAreMarked: a chain whose commit was refused runs again. Each line that its turns
// log has the number of the run, and the second run begins with a line about the first.
func TestDiscardedRunsOfChainsAreMarked(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, s *stage) error{
		"called by a guest": func(t *testing.T, s *stage) error {
			_, err := s.do(t, "a", op{Do: "call", ID: "b", Ops: []op{{Do: "call", ID: "c"}, {Do: "add", N: 1}}})
			return err
		},
		"called from outside": func(t *testing.T, s *stage) error {
			_, err := doAll(t, s.Host, "", "a Look ", `b Do [{"do":"call","id":"c"},{"do":"add","n":1}]`)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines []string
				s := newStage(t, host.Config{Observers: []host.Events{{GuestLog: func(l host.GuestLog) {
					lines = append(lines, fmt.Sprintf("%s %d %.25s", l.Key.ID, l.Run, l.Text))
				}}}})
				a := scriptedActor()
				a.Methods["Do"] = func(t *hosttest.Turn) error {
					if t.Frame.ID == "c" {
						t.Calls.Log(0, "called")
					}
					return scripted(t)
				}
				s.world.Deploy("app", "T", a)
				s.store.plan("commit", "lost")
				if err := run(t, s); err != nil {
					t.Fatal(err)
				}
				if want := []string{"c 1 called", "a 2 the run before was discar", "c 2 called"}; !slices.Equal(lines, want) {
					t.Errorf("lines %q, want %q", lines, want)
				}
			})
		})
	}
}

// TestErrorsOfCalls: what keeps a callee from running has the status and the code that are documented.
func TestErrorsOfCalls(t *testing.T) {
	for code, c := range map[string]struct {
		message abi.Message
		status  uint16
	}{
		"type_not_found":    {abi.Message{Type: "No", ID: "b", Method: "Do"}, abi.StatusNotFound},
		"method_not_found":  {abi.Message{Type: "T", ID: "b", Method: "No"}, abi.StatusNotFound},
		"payload_too_large": {abi.Message{Type: "T", ID: "b", Method: "Do", Payload: make([]byte, 2<<20)}, abi.StatusInvalidArgument},
		"invalid_call":      {abi.Message{Type: "T", ID: strings.Repeat("x", 5000), Method: "Do"}, abi.StatusInvalidArgument},
		"state_damaged":     {abi.Message{Type: "T", ID: "b", Method: "Do"}, abi.StatusFailedPrecondition},
		"store_unavailable": {abi.Message{Type: "T", ID: "b", Method: "Do"}, abi.StatusUnavailable},
	} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, host.Config{Limits: host.Limits{PayloadBytes: 1 << 20}})
				a := scriptedActor()
				var got *abi.Result
				a.Methods["Reach"] = func(turn *hosttest.Turn) error {
					switch code {
					case "state_damaged":
						s.store.plan("load", "damaged")
					case "store_unavailable":
						s.store.plan("load", "unavailable")
					}
					r, no, err := turn.Calls.Call(&c.message)
					if no != 0 || err != nil {
						t.Errorf("%d, %v", no, err)
					}
					got = r
					return add(turn)
				}
				s.world.Deploy("app", "T", a)
				if reply, err := s.call(t.Context(), "a", "Reach"); err != nil || reply != "1" {
					t.Errorf("%q, %v", reply, err)
				}
				if got == nil || got.Code != code || got.Status != c.status || got.Retryable != (code == "store_unavailable") {
					t.Errorf("%+v", got)
				}
				if _, err := s.do(t, "b", op{Do: "add"}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
