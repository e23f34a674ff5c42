package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/greenroom-run/greenroom/actor"
)

var concurrency = suite{"Concurrency", []testCase{
	{"increments by load and commit lose nothing", func(f *fixture) {
		const goroutines, each = 6, 20
		f.inParallel(goroutines, func(int) error {
			for n := 0; n < each; {
				switch err := f.increment(f.key("a")); {
				case err == nil:
					n++
				case !errors.Is(err, actor.ErrStale):
					return err
				}
			}
			return nil
		})
		f.counts(f.key("a"), goroutines*each)
	}},
	{"of many inserts of one actor exactly one wins", func(f *fixture) {
		for round := range 5 {
			k := f.key(manyID(round))
			const rivals = 8
			errs := make([]error, rivals)
			commits := make([]actor.Commit, rivals)
			f.inParallel(rivals, func(i int) error {
				commits[i] = counted(k, actor.Row{}, i)
				errs[i] = f.commit(commits[i])
				return nil
			})
			won := -1
			for i, err := range errs {
				if err == nil {
					if won >= 0 {
						f.Fatalf("both %d and %d won", won, i)
					}
					won = i
					continue
				}
				f.is(err, actor.ErrStale)
			}
			if won < 0 {
				f.Fatal("nobody won")
			}
			f.wrote(f.load(k), commits[won], fmt.Sprintf(`{"count":%d}`, won))
		}
	}},
	{"groups over the same actors in any order end", func(f *fixture) {
		rows := f.insertMany(8)
		const goroutines, each = 6, 10
		f.inParallel(goroutines, func(i int) error {
			for n := range each {
				commits := make([]actor.Commit, len(rows))
				for j := range rows {
					at := (j*(2*i+1) + n) % len(rows) // a different order in each goroutine
					commits[j] = touch(f.key(manyID(at)), rows[at])
				}
				for _, err := range f.s.Commit(f.ctx(), commits) {
					if err != nil && !errors.Is(err, actor.ErrStale) {
						return err
					}
				}
			}
			return nil
		})
		// Every row moved exactly once, since all had read the same versions.
		for i, row := range f.loadMany(len(rows)) {
			if row.Version != rows[i].Version+1 {
				f.Fatalf("row %d is %d versions on", i, row.Version-rows[i].Version)
			}
		}
	}},
	{"loads, commits and deletes are linearizable", linearizable},
}}

// register is what the linearizability check knows of an actor: its version and
// its count. A tombstone is a version with the count -1.
type register struct {
	version uint64
	count   int
}

type registerInput struct {
	actor int
	// commit is nil for a load, and for a look at the version alone.
	commit      *actor.Commit
	versionOnly bool
	count       int // what commit stores; -1 deletes
}

type registerOutput struct {
	seen  register // of a load
	stale bool     // of a commit
}

// linearizable records what several clients do to a few actors, and lets
// porcupine look for an order that explains it.
func linearizable(f *fixture) {
	const clients, actors, each = 5, 3, 40
	var (
		mu      sync.Mutex
		history []porcupine.Operation
		start   = time.Now()
	)
	f.inParallel(clients, func(client int) error {
		var last [actors]actor.Row // what this client believes, true or not
		for n := range each {
			at := (client + n) % actors
			k := f.key(manyID(at))
			in, out := registerInput{actor: at}, registerOutput{}
			op := porcupine.Operation{ClientId: client, Call: int64(time.Since(start))}
			switch {
			case n%4 == 2:
				versions, err := f.s.Versions(f.ctx(), []actor.Key{k})
				if err != nil {
					return err
				}
				in.versionOnly, out.seen.version = true, versions[0].Version
			case n%2 == 0:
				rows, err := f.s.LoadActors(f.ctx(), []actor.Key{k}, actor.LoadOptions{})
				if err != nil {
					return err
				}
				last[at] = rows[0]
				out.seen = registerOf(rows[0])
			default:
				row := last[at]
				c := counted(k, row, client*each+n)
				in.count = client*each + n
				if n%7 == 0 {
					c, in.count = remove(k, row), -1
				}
				in.commit = &c
				err := f.s.Commit(f.ctx(), []actor.Commit{c})[0]
				if err != nil && !errors.Is(err, actor.ErrStale) {
					return err
				}
				out.stale = err != nil
			}
			op.Return = int64(time.Since(start))
			op.Input, op.Output = in, out
			mu.Lock()
			history = append(history, op)
			mu.Unlock()
		}
		return nil
	})
	result, _ := porcupine.CheckOperationsVerbose(registers, history, 0) // however long it takes
	if result != porcupine.Ok {
		for _, op := range history {
			f.Logf("client %d [%d, %d]: %+v -> %+v", op.ClientId, op.Call, op.Return, op.Input, op.Output)
		}
		f.Fatalf("the history is not linearizable: %s", result)
	}
}

func registerOf(row actor.Row) register {
	switch {
	case row.Version == 0:
		return register{}
	case row.Deleted:
		return register{row.Version, -1}
	default:
		return register{row.Version, count(row)}
	}
}

var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byActor := make(map[int][]porcupine.Operation)
		for _, op := range history {
			at := op.Input.(registerInput).actor
			byActor[at] = append(byActor[at], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byActor {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return register{} },
	Step: func(state, input, output any) (bool, any) {
		r, in, out := state.(register), input.(registerInput), output.(registerOutput)
		switch {
		case in.versionOnly:
			return out.seen.version == r.version, r
		case in.commit == nil:
			return out.seen == r, r
		}
		if in.commit.Rows[0].ReadVersion != r.version {
			return out.stale, r
		}
		return !out.stale, register{in.commit.Rows[0].NewVersion, in.count}
	},
}
