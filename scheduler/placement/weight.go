package placement

import "math"

// Resources is what a host has for actors, as it announces it. The zero value announces
// nothing, as hosts of earlier versions do.
type Resources struct {
	Processors int
	Memory     int64 // that guests may take, in bytes
	// Weight, if it is above 0, replaces what follows from the others; 1 is the mean. It is
	// at most [MaxGivenWeight].
	Weight float64
}

// MaxGivenWeight bounds [Resources.Weight].
const MaxGivenWeight = 1000

// Weight is how much a host is to get beside the others. It has four steps from a value to
// its double, so that small differences change nothing.
type Weight int

// The weights of hosts.
const (
	MeanWeight Weight = 64 // also of a host that announces nothing
	MinWeight         = MeanWeight / 4
	MaxWeight         = MeanWeight * 4
)

// weightOf returns the weight that is nearest to a share in units of the mean.
func weightOf(share float64) Weight {
	step := math.Round(4 * math.Log2(share))
	return min(max(Weight(math.Round(float64(MeanWeight)*math.Exp2(step/4))), MinWeight), MaxWeight)
}

// Mean returns the weight in units of the mean.
func (w Weight) Mean() float64 { return float64(w) / float64(MeanWeight) }

// Weights returns the weights of hosts by what they announce: the processors of each count
// for one half, its memory for the other, both in units of the mean.
func Weights(hosts map[HostID]Resources) map[HostID]Weight {
	var processors, memory, measured float64
	for _, r := range hosts {
		if r.measured() {
			processors, memory, measured = processors+float64(r.Processors), memory+float64(r.Memory), measured+1
		}
	}
	shares, sum := map[HostID]float64{}, 0.0 // of those that announce something
	for id, r := range hosts {
		switch {
		case r.Weight > 0:
			shares[id] = min(r.Weight, MaxGivenWeight)
		case r.measured():
			shares[id] = measured / 2 * (float64(r.Processors)/processors + float64(r.Memory)/memory)
		}
		sum += shares[id]
	}
	weights := make(map[HostID]Weight, len(hosts))
	for id := range hosts {
		weights[id] = MeanWeight
		if share, announced := shares[id]; announced {
			weights[id] = weightOf(share / sum * float64(len(shares)))
		}
	}
	return weights
}

// measured reports whether the weight follows from processors and memory.
func (r Resources) measured() bool { return r.Weight <= 0 && r.Processors > 0 && r.Memory > 0 }
