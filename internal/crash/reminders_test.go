package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestKillReminders kills servers while reminders are set and fire: each of their times is
// counted once in the end, none is lost, none comes twice and none early. On a store that servers share
// there are two, of which one or both are killed. GREENROOM_KILL_ROUNDS says how often (make
// soak); few times in CI, since what the killed one had is waited for.
func TestKillReminders(t *testing.T) {
	t.Parallel()
	built, err := guestbuild.Build(t.Context(), guestbuild.Request{
		Dir: "../node/testdata/alarm", Out: filepath.Join(t.TempDir(), "alarm.wasm"), Toolchain: guestbuild.Go,
	})
	if err != nil {
		t.Fatal(err)
	}
	rounds := func(usual int, args ...[]string) func(*testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			r := &reminderRounds{t: t, rounds: crash.Rounds(t, usual)}
			r.random, _ = crash.Seeded(t)
			r.run(built.Path, args)
		}
	}
	shared := func(url string) func(*testing.T) {
		var args [][]string
		for _, name := range []string{"first", "second"} {
			storeArgs := []string{"--store", url}
			args = append(args, slices.Concat(storeArgs, shortLease(storeArgs), []string{"--name", name}))
		}
		return rounds(1, args...)
	}
	t.Run("embedded", rounds(4, []string{"--data-dir", t.TempDir()}))
	t.Run("postgresql", shared(pgtest.URL(t)))
	if url, ok := pgtest.CockroachURL(t); ok {
		t.Run("cockroachdb", shared(url))
	}
}

// What is set in one wave, some of which a kill meets: so many reminders of each of so many
// actors, with so many times of each, and so many beside them that fire once.
const (
	remindedActors = 8
	remindersEach  = 6
	times          = 40
	periodMS       = 40
	onceEach       = 10
	waveDue        = remindedActors * (remindersEach*times + onceEach)
	// killWithin is how many times are counted at most between a start and the next kill.
	killWithin = waveDue / 8
)

// reminderRounds has waves of reminders fire, each of actors of its own, and kills servers
// all along.
type reminderRounds struct {
	t      *testing.T
	rounds int
	random *rand.Rand

	log     *os.File
	options []crash.Options  // of the servers
	servers []*crash.Process // that run
	client  *client.Client
	kills   int
	waves   int
	overdue atomic.Int64 // calls that were repeated since a turn's time was up
}

// tally is what became of reminders.
type tally struct {
	due, fired    int // times
	turns         int // which fired them: one may stand for several
	lost, doubled int
	early         int      // turns before the time that they were for
	wrong         []string // which, for people
}

// broken reports whether anything is as it must not be.
func (t *tally) broken() bool { return t.lost+t.doubled+t.early > 0 }

func (r *reminderRounds) fatal(format string, args ...any) {
	r.t.Helper()
	fatalAfterLog(r.t, r.log.Name(), format, args...)
}

func (r *reminderRounds) start(i int) {
	r.t.Helper()
	p, err := crash.Start(r.t.Context(), r.options[i])
	if err != nil {
		r.fatal("round %d: start: %v", r.kills, err)
	}
	r.servers[i] = p
	r.options[i].Listen = strings.TrimPrefix(p.URL, "http://") // the client knows these addresses
}

func (r *reminderRounds) run(guest string, servers [][]string) {
	var err error
	if r.log, err = os.Create(filepath.Join(r.t.TempDir(), "servers.log")); err != nil {
		r.t.Fatal(err)
	}
	defer r.log.Close()
	defer func() {
		for _, p := range r.servers {
			if p != nil {
				_ = p.Kill()
			}
		}
	}()
	r.servers = make([]*crash.Process, len(servers))
	var urls []string
	for i, args := range servers {
		r.options = append(r.options, crash.Options{Binary: binary, Args: args, Log: r.log})
		r.start(i)
		urls = append(urls, r.servers[i].URL)
	}
	if out, err := exec.CommandContext(r.t.Context(), binary, "deploy", guest, "--server", urls[0]).CombinedOutput(); err != nil {
		r.fatal("deploy: %v\n%s", err, out)
	}
	// What may be repeated is, until it is answered.
	r.client, err = client.New(client.Config{URL: urls[0], URLs: urls[1:], MaxAttempts: 1 << 20, MaxBackoff: 50 * time.Millisecond})
	if err != nil {
		r.t.Fatal(err)
	}
	defer r.client.Close()

	for r.kills < r.rounds {
		r.wave()
	}
	var all tally
	for wave := range r.waves {
		r.audit(wave, &all)
	}
	r.t.Logf("%d rounds of kill -9: %d times due, %d fired in %d turns, %d lost, %d doubled, %d early; %d calls overdue", r.kills, all.due, all.fired, all.turns, all.lost, all.doubled, all.early, r.overdue.Load())
	if all.broken() {
		r.fatal("after all rounds: %s", strings.Join(all.wrong, "; "))
	}
}

// wave sets reminders and kills servers until all have fired.
func (r *reminderRounds) wave() {
	wave := r.waves
	r.waves++
	set := make(chan error, 1)
	go func() { set <- r.set(wave) }()
	isSet := false
	for counted := 0; ; {
		at := waveDue
		if r.kills < r.rounds {
			// At a moment that has nothing to do with what the servers do; now and then
			// before anything has fired, or just after a start.
			if at = counted; r.random.IntN(4) > 0 {
				at += 1 + r.random.IntN(killWithin)
			}
		}
		var over bool
		counted, over = r.await(wave, min(at, waveDue), func() bool {
			if !isSet {
				select {
				case err := <-set:
					if isSet = true; err != nil {
						r.fatal("set reminders: %v", err)
					}
				default:
				}
			}
			return isSet
		})
		if over {
			break
		}
		r.kill()
	}
	var t tally
	if r.audit(wave, &t); t.broken() {
		r.fatal("round %d: of %d times %d are lost, %d doubled and %d early: %s", r.kills, t.due, t.lost, t.doubled, t.early, strings.Join(t.wrong, "; "))
	}
}

// order is what each actor is told to set.
var order = func() string {
	var set []string
	for j := range remindersEach {
		set = append(set, fmt.Sprintf(`{"name":"r%d","method":"Ring","every_ms":%d,"times":%d,"attempts":1000}`, j, periodMS+j, times))
	}
	for j := range onceEach {
		set = append(set, fmt.Sprintf(`{"name":"once%d","method":"Ring","after_ms":%d,"attempts":1000}`, j, j*times*periodMS/onceEach))
	}
	return `{"set":[` + strings.Join(set, ",") + `]}`
}()

// wanted is how often the reminders of an actor fire, by their names.
func wanted() map[string]int {
	want := map[string]int{}
	for j := range remindersEach {
		want[fmt.Sprint("r", j)] = times
	}
	for j := range onceEach {
		want[fmt.Sprint("once", j)] = 1
	}
	return want
}

func reminded(wave, i int) string { return fmt.Sprintf("w%d-%d", wave, i) }

func (r *reminderRounds) set(wave int) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), roundDeadline)
	defer cancel()
	for i := range remindedActors {
		// Under one key, so that it is done once.
		req := client.Request{Type: "Alarm", ID: reminded(wave, i), Method: "Do", Payload: []byte(order), IdempotencyKey: "set"}
		if _, err := r.do(ctx, req); err != nil {
			return err
		}
	}
	return nil
}

// do makes a call that may be repeated, again where a turn's time was up: on a busy machine
// that is no fault of the servers.
func (r *reminderRounds) do(ctx context.Context, req client.Request) (client.Reply, error) {
	for {
		reply, err := r.client.Do(ctx, req)
		var failed *client.Error
		if !errors.As(err, &failed) || failed.Code != connect.CodeDeadlineExceeded || ctx.Err() != nil {
			return reply, err
		}
		r.overdue.Add(1)
	}
}

// await waits until so many times of a wave are counted. over tells that no more will be:
// all reminders are set, and none is left.
func (r *reminderRounds) await(wave, at int, isSet func() bool) (counted int, over bool) {
	ctx, cancel := context.WithTimeout(r.t.Context(), roundDeadline)
	defer cancel()
	for before := -1; ; before = counted {
		counted = 0
		for i := range remindedActors {
			counted += r.rung(ctx, wave, i, false).occurrences()
		}
		if (counted == before || counted >= waveDue) && isSet() && r.left(ctx, wave) == 0 {
			return counted, true
		}
		if counted >= at && counted < waveDue {
			return counted, false
		}
	}
}

func (r *reminderRounds) kill() {
	dead := r.random.Perm(len(r.servers))[:1+r.random.IntN(len(r.servers))]
	for _, i := range dead {
		if err := r.servers[i].Kill(); err != nil {
			r.fatal("round %d: %v", r.kills, err)
		}
	}
	r.kills++
	for _, i := range dead {
		r.start(i)
	}
}

// rings is what an actor has counted.
type rings struct {
	Rung        int            `json:"rung"`
	Occurrences map[string]int `json:"occurrences"`
	Early       int            `json:"early"`
	EarlyBy     time.Duration  `json:"early_by"`
}

func (a rings) occurrences() (n int) {
	for _, times := range a.Occurrences {
		n += times
	}
	return n
}

// audit adds what became of a wave, which is over, to a tally.
func (r *reminderRounds) audit(wave int, t *tally) {
	ctx, cancel := context.WithTimeout(r.t.Context(), roundDeadline)
	defer cancel()
	for i := range remindedActors {
		got := r.rung(ctx, wave, i, true)
		t.turns += got.Rung
		if t.early += got.Early; got.Early > 0 {
			t.wrong = append(t.wrong, fmt.Sprintf("%s fired up to %v early", reminded(wave, i), got.EarlyBy))
		}
		t.fired += got.occurrences()
		want := wanted()
		for name := range got.Occurrences {
			want[name] += 0 // also what was never set
		}
		for name, n := range want {
			t.due += n
			t.lost += max(0, n-got.Occurrences[name])
			t.doubled += max(0, got.Occurrences[name]-n)
			if got.Occurrences[name] != n {
				t.wrong = append(t.wrong, fmt.Sprintf("%s of %s: %d times, want %d", name, reminded(wave, i), got.Occurrences[name], n))
			}
		}
	}
}

func (r *reminderRounds) rung(ctx context.Context, wave, i int, strong bool) (a rings) {
	r.read(ctx, client.Request{ID: reminded(wave, i), Method: "Count", Strong: strong}, &a)
	return a
}

// left returns how many reminders of a wave there still are.
func (r *reminderRounds) left(ctx context.Context, wave int) (n int) {
	for i := range remindedActors {
		var names []string
		r.read(ctx, client.Request{ID: reminded(wave, i), Method: "Names", Payload: []byte(`""`), Strong: true}, &names)
		n += len(names)
	}
	return n
}

func (r *reminderRounds) read(ctx context.Context, req client.Request, into any) {
	req.Type, req.ReadOnly = "Alarm", true
	reply, err := r.do(ctx, req)
	if err == nil {
		err = json.Unmarshal(reply.Payload, into)
	}
	if err != nil {
		r.fatal("round %d: %s of %s: %v", r.kills, req.Method, req.ID, err)
	}
}
