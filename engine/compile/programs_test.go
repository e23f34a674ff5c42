package compile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// fakeProgram is not so small that Go keeps several in one block.
type fakeProgram [64]byte

// idle is the inUse of programs without instances.
func idle(*fakeProgram) bool { return false }

// put admits a program and puts it.
func put(t *testing.T, ps *Programs[fakeProgram], d actor.Digest, p *fakeProgram, bytes int64) {
	t.Helper()
	room, err := ps.Admit(t.Context(), bytes)
	if err != nil {
		t.Fatalf("%s: %v", d, err)
	}
	ps.Put(d, p, room)
}

// loadFor loads a program of so many bytes for an app.
func loadFor(ctx context.Context, ps *Programs[fakeProgram], d actor.Digest, bytes int64) (*fakeProgram, error) {
	var gate confine.Gate
	return ps.Load(ctx, &gate, d, func(ctx context.Context) (*fakeProgram, error) {
		room, err := ps.Admit(ctx, bytes)
		if err != nil {
			return nil, err
		}
		p := &fakeProgram{}
		ps.Put(d, p, room)
		return p, nil
	})
}

// TestProgramsOfOneAppPushOutNoOther: however many programs an app loads, with instances or
// without, those of an app that has less stay, its instances stay open, and it is refused nothing.
func TestProgramsOfOneAppPushOutNoOther(t *testing.T) {
	const most, heavy, light = 1000, 100, 20
	var used map[*fakeProgram]string // the apps whose instances keep programs
	inUse := func(p *fakeProgram) bool { return used[p] != "" }
	closeOne := func(app string) bool {
		for p, of := range used {
			if of == app {
				delete(used, p)
				return true
			}
		}
		return false
	}
	for _, instances := range []bool{false, true} {
		used = map[*fakeProgram]string{}
		ps := NewPrograms(100, most, inUse, slog.New(slog.DiscardHandler))
		quiet := engine.WithReclaim(owned(t, "quiet"), closeOne)
		loud := engine.WithReclaim(owned(t, "loud"), closeOne)
		first, err := loadFor(quiet, ps, "quiet's idle", light)
		if err != nil {
			t.Fatal(err)
		}
		second, err := loadFor(quiet, ps, "quiet's used", light)
		if err != nil {
			t.Fatal(err)
		}
		used[second] = "quiet"
		for n := range 30 {
			p, err := loadFor(loud, ps, actor.Digest(fmt.Sprint("loud's ", n)), heavy)
			if err != nil {
				t.Fatal(err)
			}
			if instances {
				used[p] = "loud"
			}
		}
		if ps.Get("quiet's idle") != first || ps.Get("quiet's used") != second || used[second] == "" {
			t.Error("a program of the quiet app has gone, or its instance")
		}
		if has := ps.apps["loud"]; has > most*7/8 {
			t.Errorf("the loud app has %d of %d bytes", has, most)
		}
		for n := range 4 {
			if _, err := loadFor(quiet, ps, actor.Digest(fmt.Sprint("quiet's ", n)), light); err != nil {
				t.Errorf("the quiet app: %v", err)
			}
		}
	}
}

// TestProgramsThatRunLeaveOthersAPart: where all programs of an app run and none of its instances
// can be closed, another app still finds room.
func TestProgramsThatRunLeaveOthersAPart(t *testing.T) {
	ps := NewPrograms(100, 1000, func(*fakeProgram) bool { return true }, slog.New(slog.DiscardHandler))
	loud := 0
	for ; loud < 100; loud++ {
		if _, err := loadFor(owned(t, "loud"), ps, actor.Digest(fmt.Sprint(loud)), 50); err != nil {
			if !errors.Is(err, actor.ErrOverloaded) || !strings.Contains(err.Error(), "--max-program-memory") {
				t.Fatal(err)
			}
			break
		}
	}
	if loud != 17 { // 850 bytes leave 150; 900 would leave 100, which is less than a seventh of 850
		t.Errorf("%d programs of the loud app run", loud)
	}
	for n := range 2 {
		if _, err := loadFor(owned(t, "quiet"), ps, actor.Digest(fmt.Sprint("quiet's ", n)), 50); err != nil {
			t.Error(err)
		}
	}
}

// TestProgramCountsForItsLastUser: a program of two apps counts for the one that loaded it last, and
// the instances of both are asked for.
func TestProgramCountsForItsLastUser(t *testing.T) {
	for holder, want := range map[string]string{"first": "[first]", "second": "[first second]"} {
		shared := true
		ps := NewPrograms(10, 100, func(*fakeProgram) bool { return shared }, slog.New(slog.DiscardHandler))
		for _, app := range []string{"first", "second"} {
			if _, err := loadFor(owned(t, app), ps, "a", 60); err != nil {
				t.Fatal(err)
			}
		}
		if ps.apps["first"] != 0 || ps.apps["second"] != 60 || ps.all != 60 {
			t.Errorf("%v of %d bytes", ps.apps, ps.all)
		}
		var asked []string
		ctx := engine.WithReclaim(owned(t, "third"), func(app string) bool {
			asked = append(asked, app)
			shared = app != holder // of the instance
			return !shared
		})
		room, err := ps.Admit(ctx, 50)
		if err != nil {
			t.Error(err)
		}
		if fmt.Sprint(asked) != want {
			t.Errorf("where %s has the instance: asked %v", holder, asked)
		}
		ps.Release(room)
		if _, bytes := ps.Len(); bytes != 0 || len(ps.apps) != 0 {
			t.Errorf("%d bytes are left, %v", bytes, ps.apps)
		}
	}
}

// TestProgramGrowsForItsLastUser: what one app has admitted for a program counts for another app that
// has loaded the program since.
func TestProgramGrowsForItsLastUser(t *testing.T) {
	ps := NewPrograms(10, 100, idle, slog.New(slog.DiscardHandler))
	p, err := loadFor(owned(t, "first"), ps, "a", 30)
	if err != nil {
		t.Fatal(err)
	}
	more, err := ps.Admit(owned(t, "first"), 20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loadFor(owned(t, "second"), ps, "a", 30); err != nil {
		t.Fatal(err)
	}
	ps.Extend("a", p, more)
	if ps.apps["first"] != 0 || ps.apps["second"] != 50 || ps.all != 50 {
		t.Errorf("%v of %d bytes", ps.apps, ps.all)
	}
}

// TestProgramsMakeRoomInOrder: of programs without instances, those of the app with most go first,
// and an app that loads one makes room itself rather than another that has as much.
func TestProgramsMakeRoomInOrder(t *testing.T) {
	for _, c := range []struct {
		loaded     []string // apps with 300 bytes each time, the program used least recently first
		app, stays string
	}{
		{[]string{"less", "more", "more"}, "none", "[0 2]"},
		{[]string{"equal", "same", "rest"}, "same", "[0 2]"},
	} {
		ps := NewPrograms(10, 1000, idle, slog.New(slog.DiscardHandler))
		for n, app := range c.loaded {
			if _, err := loadFor(owned(t, app), ps, actor.Digest(fmt.Sprint(n)), 300); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := loadFor(owned(t, c.app), ps, "new", 300); err != nil {
			t.Fatal(err)
		}
		var stays []int
		for n := range c.loaded {
			if ps.Get(actor.Digest(fmt.Sprint(n))) != nil {
				stays = append(stays, n)
			}
		}
		if fmt.Sprint(stays) != c.stays {
			t.Errorf("after a program of the app %s, of those of %v stay %v", c.app, c.loaded, stays)
		}
	}
}

// TestAnyIdleProgramGoesAtLast: an app whose programs all run has an app with less give up a program
// without instances, rather than be refused.
func TestAnyIdleProgramGoesAtLast(t *testing.T) {
	var ps *Programs[fakeProgram]
	ps = NewPrograms(10, 1000, func(p *fakeProgram) bool {
		r := ps.alive["loud's"]
		return r != nil && r.program.Value() == p
	}, slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		app   string
		bytes int64
	}{{"loud", 600}, {"quiet", 300}} {
		if _, err := loadFor(owned(t, c.app), ps, actor.Digest(c.app+"'s"), c.bytes); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := loadFor(owned(t, "loud"), ps, "more", 200); err != nil {
		t.Error(err)
	}
	if ps.apps["loud"] != 800 || ps.apps["quiet"] != 0 || ps.Get("loud's") == nil || ps.Get("quiet's") != nil {
		t.Errorf("%v", ps.apps)
	}
}

// TestProgramHasAllWhoWaitedForIt: the apps that waited for one load of a program are its users.
func TestProgramHasAllWhoWaitedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := NewPrograms(10, 100, idle, slog.New(slog.DiscardHandler))
		var gate confine.Gate
		compiled := make(chan struct{})
		load := func(ctx context.Context) (*fakeProgram, error) {
			<-compiled
			room, err := ps.Admit(ctx, 60)
			p := &fakeProgram{}
			ps.Put("a", p, room)
			return p, err
		}
		for _, app := range []string{"first", "second"} {
			ctx := owned(t, app)
			go func() {
				if _, err := ps.Load(ctx, &gate, "a", load); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		close(compiled)
		synctest.Wait()
		if users := ps.alive["a"].users; !slices.Equal(users, []string{"first", "second"}) || ps.apps["first"]+ps.apps["second"] != 60 || ps.all != 60 {
			t.Errorf("the users are %v; %v of %d bytes", users, ps.apps, ps.all)
		}
	})
}

// TestReplacedProgramIsFreed: once a program that another one of its module has replaced is freed, it
// does not count, and the other one is found and counts.
func TestReplacedProgramIsFreed(t *testing.T) {
	ps := NewPrograms(10, 100, idle, slog.New(slog.DiscardHandler))
	put(t, ps, "a", &fakeProgram{}, 20)
	first := ps.alive["a"]
	p := &fakeProgram{}
	put(t, ps, "a", p, 20)
	if ps.all != 40 {
		t.Errorf("%d bytes while both may be there", ps.all)
	}
	if !ps.collect(Room{"other", 70}) { // beside one of them
		t.Error("the replaced program is not freed")
	}
	ps.Clear()
	if first.program.Value() != nil || ps.all != 20 || ps.Get("a") != p {
		t.Errorf("%d bytes, and the other program is found: %t", ps.all, ps.Get("a") == p)
	}
	runtime.KeepAlive(p)
}

// What is loaded stays within the bound, whatever was loaded before: what has no
// instances goes, and is freed, before another program is admitted.
func TestProgramsAreBoundedInBytes(t *testing.T) {
	ps := NewPrograms(10, 100, idle, slog.New(slog.DiscardHandler))
	for n := range 20 {
		put(t, ps, actor.Digest(fmt.Sprint(n)), &fakeProgram{}, 40)
		if _, bytes := ps.Len(); bytes > 100 {
			t.Fatalf("after %d programs, %d bytes are in memory", n+1, bytes)
		}
	}
	if ps.Get("19") == nil || ps.Get("0") != nil {
		t.Error("the one used last is to be there, and not the first")
	}
	put(t, ps, "used again", &fakeProgram{}, 40)
	if ps.Get("19") == nil || ps.Get("18") != nil {
		t.Error("what was used least recently is to go first")
	}
	var large *LimitError
	if _, err := ps.Admit(t.Context(), 101); !errors.As(err, &large) || !errors.Is(err, actor.ErrOverloaded) || ps.Get("19") == nil {
		t.Errorf("a program beyond the bound: %v", err)
	}
}

// What has instances stays, and is found, until the host closes them.
func TestProgramsInUseStay(t *testing.T) {
	var log bytes.Buffer
	used := &fakeProgram{}
	ps := NewPrograms(1, 100, func(p *fakeProgram) bool { return p == used }, slog.New(slog.NewTextHandler(&log, nil)))
	put(t, ps, "used", used, 50)
	put(t, ps, "other", &fakeProgram{}, 30) // it is the one that is kept
	put(t, ps, "more", &fakeProgram{}, 30)
	for range 2 {
		if _, err := ps.Admit(t.Context(), 60); !errors.Is(err, actor.ErrOverloaded) || !strings.Contains(err.Error(), "100 bytes") {
			t.Errorf("got %v", err)
		}
	}
	if ps.Get("used") != used || ps.Get("other") != nil {
		t.Error("the one that has instances is to be found, and the one that made room not any more")
	}
	if n := strings.Count(log.String(), "max-program-memory"); n != 1 {
		t.Errorf("%d warnings: %s", n, &log)
	}
	closed := 0
	ctx := engine.WithReclaim(t.Context(), func(string) bool {
		if closed++; closed == 3 {
			used = nil
		}
		return true
	})
	room, err := ps.Admit(ctx, 50)
	if err != nil || closed != 3 {
		t.Errorf("after %d instances were closed: %v", closed, err)
	}
	ps.Release(room)
	if _, bytes := ps.Len(); bytes != 0 {
		t.Errorf("%d bytes are left", bytes)
	}
}

// What a program comes to take later counts like the rest of it.
func TestProgramGrows(t *testing.T) {
	p := &fakeProgram{}
	ps := NewPrograms(1, 100, func(q *fakeProgram) bool { return p == q }, slog.New(slog.DiscardHandler))
	ps.Extend("p", p, Room{}) // Put is to count it
	put(t, ps, "p", p, 50)
	more, err := ps.Admit(t.Context(), 30)
	if err != nil {
		t.Fatal(err)
	}
	ps.Extend("p", p, more)
	if _, err := ps.Admit(t.Context(), 30); !errors.Is(err, actor.ErrOverloaded) {
		t.Errorf("got %v", err)
	}
	p = nil
	if _, err := ps.Admit(t.Context(), 100); err != nil {
		t.Error(err)
	}
	if ps.recentBytes != 0 {
		t.Errorf("%d bytes are kept of nothing", ps.recentBytes)
	}
}

// A program that takes the place of another one of the same module counts once.
func TestProgramReplaced(t *testing.T) {
	ps := NewPrograms(10, 200, idle, slog.New(slog.DiscardHandler))
	put(t, ps, "a", &fakeProgram{}, 60)
	second := &fakeProgram{}
	put(t, ps, "a", second, 50)
	if ps.recentBytes != 50 || ps.Get("a") != second {
		t.Errorf("kept %d bytes", ps.recentBytes)
	}
	if ps.Get("a"); ps.recentBytes != 50 {
		t.Errorf("kept %d bytes after another use", ps.recentBytes)
	}
}

// A load goes on as long as any of its callers is there, and ends with the last; the next
// begins after it.
func TestLoadEndsWithItsLastCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := NewPrograms(10, 100, idle, slog.New(slog.DiscardHandler))
		var gate confine.Gate
		loads, ended := 0, 0
		load := func(ctx context.Context) (*fakeProgram, error) {
			loads++
			<-ctx.Done()
			ended++
			return nil, ctx.Err()
		}
		var leave []context.CancelFunc
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			leave = append(leave, cancel)
			go func() {
				if _, err := ps.Load(ctx, &gate, "a", load); !errors.Is(err, actor.ErrCanceled) {
					t.Errorf("got %v", err)
				}
			}()
			synctest.Wait()
		}
		for n, cancel := range leave {
			if loads != 1 || ended != 0 {
				t.Errorf("after %d of 3 callers have left: %d loads, %d ended", n, loads, ended)
			}
			cancel()
			synctest.Wait()
		}
		if ended != 1 {
			t.Error("the load goes on though its callers have left")
		}
		want := &fakeProgram{}
		if p, err := ps.Load(t.Context(), &gate, "a", func(context.Context) (*fakeProgram, error) { return want, nil }); p != want || err != nil {
			t.Errorf("another load: %v, %v", p, err)
		}
		if len(ps.loads) != 0 {
			t.Errorf("%d loads are kept", len(ps.loads))
		}
	})
}

// A load closes instances for whichever of its callers can, also for one that came later.
func TestLoadReclaimsForAllItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := NewPrograms(10, 100, idle, slog.New(slog.DiscardHandler))
		var gate confine.Gate
		compiled, closed := make(chan struct{}), 0
		load := func(ctx context.Context) (*fakeProgram, error) {
			<-compiled
			if !engine.ReclaimOf(ctx)("") {
				return nil, actor.ErrOverloaded
			}
			return &fakeProgram{}, nil
		}
		for _, ctx := range []context.Context{t.Context(), engine.WithReclaim(t.Context(), func(string) bool { closed++; return true })} {
			go func() {
				if _, err := ps.Load(ctx, &gate, "a", load); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		close(compiled)
		synctest.Wait()
		if closed != 1 {
			t.Errorf("%d instances were closed", closed)
		}
	})
}

// TestLoadThatCompilesOutlivesItsCallers: a module that takes longer to compile than its
// callers wait would never be loaded if each of them ended the compilation.
func TestLoadThatCompilesOutlivesItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := NewPrograms(10, 100, idle, slog.New(slog.DiscardHandler))
		var gate confine.Gate
		want, loads, compiled := &fakeProgram{}, 0, make(chan struct{})
		load := func(ctx context.Context) (*fakeProgram, error) {
			loads++
			reportCompiling(ctx)
			select {
			case <-compiled:
				return want, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := ps.Load(ctx, &gate, "a", load); !errors.Is(err, actor.ErrDeadline) {
			t.Errorf("a caller who has a second: %v", err)
		}
		time.AfterFunc(time.Second, func() { close(compiled) })
		if p, err := ps.Load(t.Context(), &gate, "a", load); p != want || err != nil || loads != 1 {
			t.Errorf("the next caller, after %d loads: %v, %v", loads, p, err)
		}
	})
}

func TestProgramsLoad(t *testing.T) {
	ps := NewPrograms(10, 100, idle, slog.New(slog.DiscardHandler))
	var gate confine.Gate
	var bug *confine.PanicError
	if _, err := ps.Load(t.Context(), &gate, "a", func(context.Context) (*fakeProgram, error) { panic("oh") }); !errors.As(err, &bug) || len(bug.Stack) == 0 {
		t.Errorf("got %v", err)
	}
	if err := gate.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := ps.Load(t.Context(), &gate, "c", nil); !errors.Is(err, actor.ErrStopping) {
		t.Errorf("got %v", err)
	}
}
