package activation

import (
	"cmp"
	"slices"
)

// alone reports whether the activation shares no batch with others. The caller has the
// shard's lock.
func (a *Activation) alone() bool {
	for _, f := range [...]*Flight{a.Member.Flight(), a.Member.Pending()} {
		if f != nil && len(f.Payload.Parts) > 1 {
			return false
		}
	}
	return true
}

// Lock locks what a turn of the activation, or the end of its flight, may change: its shard
// and those of all activations that it shares a batch with, which unlock is given.
func (a *Activation) Lock() (several []*Shard) {
	a.Shard.Mu.Lock()
	if a.alone() {
		return nil
	}
	a.Shard.Mu.Unlock()
	return lockAll([]*Activation{a})
}

// Unlock unlocks what Lock has locked and returned.
func (a *Activation) Unlock(several []*Shard) {
	if several == nil {
		a.Shard.Mu.Unlock()
		return
	}
	UnlockAll(several)
}

// lockAll locks the shards of activations, and of all others that these share a batch with.
func lockAll(of []*Activation) (locked []*Shard) {
	for _, a := range of {
		locked = withShard(locked, a.Shard)
	}
	for {
		for _, s := range locked {
			s.Mu.Lock()
		}
		needed := locked
		for _, a := range of {
			for _, f := range [...]*Flight{a.Member.Flight(), a.Member.Pending()} {
				if f == nil {
					continue
				}
				for i := range f.Payload.Parts {
					needed = withShard(needed, f.Payload.Parts[i].Activation.Shard)
				}
			}
		}
		if len(needed) == len(locked) {
			return locked
		}
		UnlockAll(locked)
		locked = needed
	}
}

// withShard returns shards, which are in ascending order, with s.
func withShard(shards []*Shard, s *Shard) []*Shard {
	at, found := slices.BinarySearchFunc(shards, s.number, func(s *Shard, number int) int { return cmp.Compare(s.number, number) })
	if found {
		return shards
	}
	return slices.Insert(slices.Clip(shards), at, s)
}

// UnlockAll unlocks shards, in any order.
func UnlockAll(shards []*Shard) {
	for _, s := range shards {
		s.Mu.Unlock()
	}
}
