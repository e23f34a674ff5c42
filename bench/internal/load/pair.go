package load

// Pair chooses two actors of that many, two at least, for the n-th call of a worker: evenly,
// and the same ones each time. The one with the lower number comes first, so that whoever takes
// both in that order meets no deadlock.
func Pair(worker, n, actors int) (low, high int) {
	r := mix(uint64(worker)<<32 | uint64(n))
	low = int(r % uint64(actors))
	high = int(r >> 32 % uint64(actors-1))
	if high >= low {
		return low, high + 1
	}
	return high, low
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
