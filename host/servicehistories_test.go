package host_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// learners are actors that watch services, and again after each move, and the latest list of each.
type learners struct {
	mu      sync.Mutex
	latest  map[[2]string]string // by actor and name
	watched map[[2]string]bool
}

func (l *learners) actor() hosttest.Actor {
	watch := func(t *hosttest.Turn, name, method string) error {
		replaced, err := t.WatchService(name, method)
		return errors.Join(err, t.Reply(fmt.Sprint(replaced)))
	}
	add := func(t *hosttest.Turn) error { _, err := t.Add("n", 1); return err }
	return hosttest.Actor{Placement: abi.PlacementRing, Methods: map[string]hosttest.Func{
		"Watch":       func(t *hosttest.Turn) error { return watch(t, string(t.Frame.Payload), "Learn") },
		"WatchAndAdd": func(t *hosttest.Turn) error { return errors.Join(add(t), watch(t, string(t.Frame.Payload), "Learn")) },
		"Unwatch":     func(t *hosttest.Turn) error { return watch(t, string(t.Frame.Payload), "") },
		"Claim":       func(t *hosttest.Turn) error { return t.Claim(string(t.Frame.Payload)) },
		"Release":     func(t *hosttest.Turn) error { _, err := t.Release(string(t.Frame.Payload)); return err },
		"Learn": func(t *hosttest.Turn) error {
			f := t.Frame
			l.mu.Lock()
			again := l.watched[[2]string{f.ID, f.CauseName}]
			l.mu.Unlock()
			if f.Failed == abi.WatchMoved && !again {
				return add(t)
			} else if f.Failed == abi.WatchMoved {
				return errors.Join(add(t), watch(t, f.CauseName, "Learn"))
			}
			l.mu.Lock()
			l.latest[[2]string{f.ID, f.CauseName}] = string(f.Payload)
			l.mu.Unlock()
			return add(t)
		},
	}}
}

// watches notes whether an actor watches a name.
func (l *learners) watches(of [2]string, watches bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watched[of] = watches; !watches {
		delete(l.watched, of)
	}
}

// list is what watchers of a name are to know.
func (d *directory) list(t *testing.T, name string) string {
	t.Helper()
	found, err := d.ListServices(t.Context(), actor.ServiceQuery{Prefix: name, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Name string `json:"name"`
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	list := map[string][]entry{"services": {}}
	for _, v := range found {
		list["services"] = append(list["services"], entry{v.Name, v.Actor.Type, v.Actor.ID})
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Whatever happens to watchers, to their hosts and to the store: seconds later, each watcher has the newest
// list of each name that it watches, and the others are not told any more.
func TestWatchersEndWithTheNewestList(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				l := &learners{latest: map[[2]string]string{}, watched: map[[2]string]bool{}}
				hs := newHosts(t, host.Limits{IdleTimeout: 3 * time.Second, Mailbox: 2})
				for _, s := range hs.stages {
					s.world.Deploy("app", "W", l.actor())
				}
				call := func(id, method, payload string) (string, error) {
					inv := actor.Invocation{Key: actor.Key{App: "app", Type: "W", ID: id}, Method: method, Payload: actor.Payload{Data: []byte(payload)}}
					r, err := hs.stages[hs.holder(id)].Invoke(t.Context(), inv)
					return string(r.Payload.Data), err
				}
				ids, names := []string{"a", "a2", "b", "b2"}, []string{"w/", "w/1/", "x/"}
				for range 60 {
					id, name := ids[random.IntN(len(ids))], names[random.IntN(len(names))]
					switch n := random.IntN(16); n {
					case 0, 1:
						if _, err := call(id, []string{"Watch", "WatchAndAdd"}[n], name); err == nil {
							l.watches([2]string{id, name}, true)
						}
					case 2:
						l.watches([2]string{id, name}, false) // and not again after a move
						for range 3 {                         // two of them may find the store away
							if _, err := call(id, "Unwatch", name); err == nil {
								break
							}
							synctest.Wait() // a mailbox that was full of notices has room again
						}
					case 3, 4, 5, 6:
						_, _ = call(id, []string{"Claim", "Release"}[n%2], name+fmt.Sprint(random.IntN(3)))
					case 7:
						hs.move(t, id, random.IntN(2))
					case 8:
						hs.stages[random.IntN(2)].DropAll()
					case 9:
						hs.store.plan("commit", "unavailable")
					case 10:
						hs.store.plan("load", "unavailable")
					case 11:
						hs.store.write(actor.Key{App: "app", Type: "W", ID: id}, func(*actor.Row) {})
					case 12:
						hs.services.setDown([]error{nil, errors.New("down")}[random.IntN(2)])
					default:
						time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
					}
				}
				hs.services.setDown(nil)
				hs.store.mu.Lock()
				clear(hs.store.faults)
				hs.store.mu.Unlock()
				time.Sleep(20 * time.Second)
				for _, id := range ids {
					for _, name := range names {
						of := [2]string{id, name}
						l.mu.Lock()
						latest, watched := l.latest[of], l.watched[of]
						l.mu.Unlock()
						if watched && latest != hs.services.list(t, name) {
							t.Errorf("seed %d: %s has %s of %s, which is %s", seed, id, latest, name, hs.services.list(t, name))
						}
						if was, err := call(id, "Unwatch", name); err != nil || was != fmt.Sprint(watched) {
							t.Errorf("seed %d: %s watched %s: %s, want %v; %v", seed, id, name, was, watched, err)
						}
					}
				}
			})
		})
	}
}
