package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// TestDeployments: who knows an older deployment is told, and nobody else.
func TestDeployments(t *testing.T) {
	at := func(name string, generation uint64) protocol.Type {
		return protocol.Type{App: "app of " + name, Name: name, Generation: generation}
	}
	d, hosts := deployments{}, map[string]map[protocol.TypeName]protocol.Type{}
	for i, tt := range []struct {
		host         string
		types        []protocol.Type
		news, behind []string
	}{
		{"a", []protocol.Type{at("T", 1)}, []string{"app of T"}, nil},
		{"b", []protocol.Type{at("T", 1)}, nil, nil},
		{"b", []protocol.Type{at("T", 1), at("U", 1)}, []string{"app of U"}, nil},
		{"a", []protocol.Type{at("T", 3), at("U", 1)}, []string{"app of T"}, nil},
		{"c", []protocol.Type{at("T", 2), at("U", 1)}, nil, []string{"app of T"}},
		{"c", []protocol.Type{at("T", 3), at("U", 1)}, nil, nil},
		{"b", []protocol.Type{at("T", 3)}, []string{"app of U"}, nil}, // undeployed
		{"a", []protocol.Type{at("T", 3)}, nil, nil},
		{"c", []protocol.Type{at("U", 1)}, []string{"app of T"}, []string{"app of U"}},
		{"b", []protocol.Type{at("T", 4), at("U", 2)}, []string{"app of T", "app of U"}, nil},
		{"a", nil, nil, nil}, // it knew nothing newer
	} {
		news, behind := d.reported(hosts[tt.host], tt.types)
		if !slices.Equal(news, tt.news) || !slices.Equal(behind, tt.behind) {
			t.Errorf("report %d: news %q, behind %q; want %q, %q", i, news, behind, tt.news, tt.behind)
		}
		hosts[tt.host] = map[protocol.TypeName]protocol.Type{}
		for _, typ := range tt.types {
			hosts[tt.host][typ.TypeName()] = typ
		}
	}
}

// TestTypesReadElsewhere: what one host deploys, or takes out of service, the others read
// without being asked for it, and at once.
func TestTypesReadElsewhere(t *testing.T) {
	run(t, func(c *testCluster) {
		reads := map[string]*atomic.Int64{}
		for _, name := range []string{"a", "b", "c"} {
			n := &atomic.Int64{}
			reads[name] = n
			p := c.process(name, func(cfg *Config) {
				cfg.ReadTypes = func(_ context.Context, app string) error {
					if app != "a" {
						return fmt.Errorf("app %q", app)
					}
					n.Add(1)
					return nil
				}
			})
			if err := p.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.alive.Store(true)
		}
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
		for _, types := range [][]protocol.Type{{ringType("R"), stickyType("S"), ringType("New")}, {ringType("R")}} {
			for _, n := range reads {
				n.Store(0)
			}
			c.processes[1].setTypes(types...)
			<-time.After(10 * time.Millisecond) // of the bubble's clock: far from any tick
			synctest.Wait()
			if a, b, cc := reads["a"].Load(), reads["b"].Load(), reads["c"].Load(); a == 0 || b != 0 || cc == 0 {
				t.Errorf("%d types at b: %d reads by a, %d by b, %d by c", len(types), a, b, cc)
			}
		}
	})
}
