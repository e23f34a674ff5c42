package crash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestKillReminders kills a server while reminders fire: each of their times is counted
// once in the end, none is lost and none comes twice. On a store that servers share the
// next one waits until nothing of the lost one can run any more, so that there is one kill.
func TestKillReminders(t *testing.T) {
	t.Parallel()
	built, err := guestbuild.Build(t.Context(), guestbuild.Request{
		Dir: "../node/testdata/alarm", Out: filepath.Join(t.TempDir(), "alarm.wasm"), Toolchain: guestbuild.Go,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []struct {
		name  string
		args  []string
		kills int
	}{
		{"embedded", []string{"--data-dir", t.TempDir()}, roundsOr(t, 4)},
		{"postgresql", []string{"--store", pgtest.URL(t), "--lease", "1s"}, 1},
	} {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			(&reminderRounds{t: t, args: store.args, kills: store.kills}).run(built.Path)
		})
	}
}

// What is set before the first kill: so many reminders of each of so many actors, with so
// many times of each.
const (
	remindedActors = 8
	remindersEach  = 6
	times          = 40
	periodMS       = 40
)

type reminderRounds struct {
	t      *testing.T
	args   []string
	kills  int
	log    *os.File
	server *crash.Process
	client greenroomv1connect.ActorServiceClient
}

func (r *reminderRounds) fatal(format string, args ...any) {
	r.t.Helper()
	text, _ := os.ReadFile(r.log.Name())
	r.t.Fatalf(format+"\nend of the server's log:\n%s", append(args, text[max(0, len(text)-4000):])...)
}

func (r *reminderRounds) start() {
	r.t.Helper()
	var err error
	if r.server, err = crash.Start(r.t.Context(), crash.Options{Binary: binary, Args: r.args, Log: r.log}); err != nil {
		r.fatal("start: %v", err)
	}
	r.client = greenroomv1connect.NewActorServiceClient(http.DefaultClient, r.server.URL)
}

func (r *reminderRounds) run(guest string) {
	var err error
	if r.log, err = os.Create(filepath.Join(r.t.TempDir(), "server.log")); err != nil {
		r.t.Fatal(err)
	}
	defer r.log.Close()
	defer func() {
		if r.server != nil {
			_ = r.server.Kill()
		}
	}()
	r.start()
	if out, err := exec.CommandContext(r.t.Context(), binary, "deploy", guest, "--server", r.server.URL).CombinedOutput(); err != nil {
		r.fatal("deploy: %v\n%s", err, out)
	}
	for i := range remindedActors {
		var set []string
		for j := range remindersEach {
			set = append(set, fmt.Sprintf(`{"name":"r%d","method":"Ring","every_ms":%d,"times":%d,"attempts":1000}`, j, periodMS+j, times))
		}
		if err := r.invoke(i, "Do", `{"set":[`+strings.Join(set, ",")+`]}`, nil); err != nil {
			r.fatal("set reminders: %v", err)
		}
	}
	total := 0
	for kill := range r.kills {
		// At a moment that has nothing to do with what the server does.
		at := total + 1 + rand.IntN(remindedActors*remindersEach*times/(2*r.kills))
		for total = r.counted(); total < at && total < remindedActors*remindersEach*times; total = r.counted() {
		}
		if err := r.server.Kill(); err != nil {
			r.fatal("kill %d: %v", kill, err)
		}
		r.start()
	}
	for total = r.counted(); total < remindedActors*remindersEach*times || r.left() > 0; total = r.counted() {
		if r.t.Context().Err() != nil {
			r.fatal("%d times were counted", total)
		}
	}
	for i := range remindedActors {
		for name, n := range r.occurrences(i) {
			if n != times {
				r.t.Errorf("%s of actor %d: %d times, want %d", name, i, n, times)
			}
		}
	}
	r.t.Logf("%d kills, %d times counted", r.kills, total)
}

// counted returns how many times were counted by all.
func (r *reminderRounds) counted() (n int) {
	for i := range remindedActors {
		for _, times := range r.occurrences(i) {
			n += times
		}
	}
	return n
}

func (r *reminderRounds) occurrences(i int) map[string]int {
	var a struct {
		Occurrences map[string]int `json:"occurrences"`
	}
	if err := r.invoke(i, "Count", ``, &a); err != nil {
		r.fatal("count: %v", err)
	}
	return a.Occurrences
}

// left returns how many reminders there still are.
func (r *reminderRounds) left() (n int) {
	for i := range remindedActors {
		var names []string
		if err := r.invoke(i, "Names", `""`, &names); err != nil {
			r.fatal("names: %v", err)
		}
		n += len(names)
	}
	return n
}

// invoke calls an actor of a server that is up, and waits for it where the actor still
// belongs to one that was killed.
func (r *reminderRounds) invoke(i int, method, payload string, into any) error {
	for {
		res, err := r.client.Invoke(context.WithoutCancel(r.t.Context()), connect.NewRequest(&greenroomv1.InvokeRequest{
			Actor: &greenroomv1.ActorKey{Type: "Alarm", Id: fmt.Sprint("a", i)}, Method: method, Payload: []byte(payload),
		}))
		switch {
		case connect.CodeOf(err) == connect.CodeUnavailable && r.t.Context().Err() == nil && err != nil:
			continue
		case err != nil || into == nil:
			return err
		}
		return json.Unmarshal(res.Msg.Payload, into)
	}
}
