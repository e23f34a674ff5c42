package placement

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
)

// sized is the resources of a host that has so many processors, and 2 GiB for each of them.
func sized(processors int) Resources {
	return Resources{Processors: processors, Memory: int64(processors) << 31}
}

// TestWeights: what hosts weigh by what they announce.
func TestWeights(t *testing.T) {
	type offers = map[HostID]Resources
	for name, tt := range map[string]struct {
		hosts offers
		want  map[HostID]Weight
	}{
		"equal ones":                          {offers{"a": sized(3), "b": sized(3)}, map[HostID]Weight{"a": 64, "b": 64}},
		"nearly equal ones":                   {offers{"a": {Processors: 4, Memory: 1000}, "b": {Processors: 4, Memory: 1100}}, map[HostID]Weight{"a": 64, "b": 64}},
		"four times as much":                  {offers{"a": sized(1), "b": sized(4)}, map[HostID]Weight{"a": 27, "b": 108}},
		"one, two and four":                   {offers{"a": sized(1), "b": sized(2), "c": sized(4)}, map[HostID]Weight{"a": 27, "b": 54, "c": 108}},
		"processors alone count half":         {offers{"a": {Processors: 1, Memory: 1000}, "b": {Processors: 3, Memory: 1000}}, map[HostID]Weight{"a": 45, "b": 76}},
		"memory alone counts half":            {offers{"a": {Processors: 2, Memory: 1000}, "b": {Processors: 2, Memory: 3000}}, map[HostID]Weight{"a": 45, "b": 76}},
		"one that announces nothing":          {offers{"a": sized(1), "b": sized(4), "old": {}}, map[HostID]Weight{"a": 27, "b": 108, "old": 64}},
		"all announce nothing":                {offers{"a": {}, "b": {}}, map[HostID]Weight{"a": 64, "b": 64}},
		"a half announced is nothing":         {offers{"a": sized(1), "b": sized(4), "c": {Processors: 8}}, map[HostID]Weight{"a": 27, "b": 108, "c": 64}},
		"far below the mean":                  {offers{"a": sized(1), "b": sized(20), "c": sized(20)}, map[HostID]Weight{"a": 16, "b": 91, "c": 91}},
		"far above the mean":                  {offers{"a": {Weight: 100}, "b": sized(4), "c": sized(4), "d": sized(4), "e": sized(4), "f": sized(4), "g": sized(4), "h": sized(4)}, map[HostID]Weight{"a": 256, "b": 16, "c": 16, "d": 16, "e": 16, "f": 16, "g": 16, "h": 16}},
		"given: of a host like the mean":      {offers{"a": {Processors: 64, Memory: 1, Weight: 1}, "b": sized(4), "c": sized(4)}, map[HostID]Weight{"a": 64, "b": 64, "c": 64}},
		"given: twice the mean of the others": {offers{"a": {Weight: 2}, "b": sized(1), "c": sized(1)}, map[HostID]Weight{"a": 91, "b": 45, "c": 45}},
		"given to all: their proportions":     {offers{"a": {Weight: 10}, "b": {Weight: 20}, "c": {Weight: 40}}, map[HostID]Weight{"a": 27, "b": 54, "c": 108}},
		"nonsense":                            {offers{"a": {Weight: math.NaN()}, "b": {Processors: -4, Memory: -1}, "c": {Weight: math.Inf(1)}}, map[HostID]Weight{"a": 64, "b": 64, "c": 64}},
	} {
		if got := Weights(tt.hosts); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestWeightsOfARestart: a host that comes back under another ID has its weight, and the
// others have theirs.
func TestWeightsOfARestart(t *testing.T) {
	sizes := []int{1, 3, 5, 7, 11, 13, 24, 64}
	weigh := func(generation int) (weights []Weight) {
		offers := map[HostID]Resources{}
		id := func(i int) HostID { return HostID(fmt.Sprint((i*5+generation)%len(sizes), "-", generation)) }
		for i, n := range sizes {
			offers[id(i)] = sized(n)
		}
		for i := range sizes {
			weights = append(weights, Weights(offers)[id(i)])
		}
		return weights
	}
	want := weigh(0)
	for generation := range 100 {
		if got := weigh(generation); !reflect.DeepEqual(got, want) {
			t.Fatalf("weights are %v, and were %v", got, want)
		}
	}
}

// TestRingByWeight: actors are at three hosts in proportion to their sizes, 1 to 2 to 4,
// within a third of each one's share, whatever the hosts are called.
func TestRingByWeight(t *testing.T) {
	const actors = 7000
	sizes := []int{1, 2, 4}
	for names := range 20 {
		offers, hosts := map[HostID]Resources{}, make([]HostID, len(sizes))
		for i, n := range sizes {
			hosts[i] = HostID(fmt.Sprint("host-", names, "-", i))
			offers[hosts[i]] = sized(n)
		}
		table := ringTable(t, Ring{Ranges: DefaultRanges, Weights: Weights(offers)}, hosts)
		at := map[HostID]int{}
		for i := range actors {
			at[table.Owner(PointOf(actor.Key{App: "a", Type: "T", ID: fmt.Sprint(i)}))]++
		}
		for i, n := range sizes {
			if share := actors / 7 * n; at[hosts[i]] < share*2/3 || at[hosts[i]] > share*4/3 {
				t.Errorf("%s has %d actors of %d; its share is %d", hosts[i], at[hosts[i]], actors, share)
			}
		}
	}
}

// TestRingOfEqualWeights: where hosts are of one weight, or none is known, all is where it
// is without weights.
func TestRingOfEqualWeights(t *testing.T) {
	for _, each := range []int{1, 2} {
		for _, n := range []int{1, 3, 10} {
			hosts := named(n)
			want := ringTable(t, Ring{Ranges: DefaultRanges, Hosts: each}, hosts)
			for _, w := range []Weight{MinWeight, 45, MeanWeight, MaxWeight} {
				weights := map[HostID]Weight{}
				for _, h := range hosts {
					weights[h] = w
				}
				if got := ringTable(t, Ring{Ranges: DefaultRanges, Hosts: each, Weights: weights}, hosts); !reflect.DeepEqual(got, want) {
					t.Errorf("%d hosts of weight %d have other ranges than without weights", n, w)
				}
			}
		}
	}
}

// TestRingWithoutAWeight: a host that no weight is known of is a mean one.
func TestRingWithoutAWeight(t *testing.T) {
	r := Ring{Ranges: 64, Hosts: 3, Weights: map[HostID]Weight{"host-00": 27, "host-01": MeanWeight}}
	got := ringTable(t, r, named(4))
	r.Weights["host-02"], r.Weights["host-03"] = MeanWeight, MeanWeight
	if want := ringTable(t, r, named(4)); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
