package host

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// repeats remembers which actors were lately sent a call again whose commit was
// recorded already. What repeats one call goes on to do so, and to find out when
// the turn commits costs all turns of the actor a run: for repeatWindow, every
// call of the actor that has a key is looked up before it is admitted, off the
// actor's worker.
//
// Actors share the places by a hash: that two do costs one of them look-ups.
type repeats struct {
	seed  maphash.Seed
	until [repeatPlaces]atomic.Int64 // nanoseconds since 1970
}

const (
	repeatPlaces = 4096
	repeatWindow = 10 * time.Second
)

func (r *repeats) init() { r.seed = maphash.MakeSeed() }

func (r *repeats) place(key *actor.Key) *atomic.Int64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	h.WriteString(key.App)
	h.WriteByte(0)
	h.WriteString(key.Type)
	h.WriteByte(0)
	h.WriteString(key.ID)
	return &r.until[h.Sum64()%repeatPlaces]
}

// met says that a call of an actor was repeated.
func (r *repeats) met(key *actor.Key, now time.Time) {
	r.place(key).Store(now.Add(repeatWindow).UnixNano())
}

// recent reports whether one was, not long ago.
func (r *repeats) recent(key *actor.Key, now time.Time) bool {
	return now.UnixNano() < r.place(key).Load()
}
