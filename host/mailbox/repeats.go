package mailbox

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Repeats remembers which actors were lately sent a call again whose commit was
// recorded already. A client that repeats one call is likely to repeat others, and if the
// commit finds that, all turns of the actor pay a run: for repeatWindow, every
// call of the actor that has a key is looked up before it is admitted, off the
// actor's worker. The methods may be called concurrently.
//
// Actors share the places by a hash: two actors in one place cost one of them look-ups.
type Repeats struct {
	seed  maphash.Seed
	until [repeatPlaces]atomic.Int64 // nanoseconds since 1970
}

const (
	repeatPlaces = 4096
	repeatWindow = 10 * time.Second
)

// NewRepeats returns a Repeats that remembers nothing.
func NewRepeats() *Repeats { return &Repeats{seed: maphash.MakeSeed()} }

func (r *Repeats) place(key *actor.Key) *atomic.Int64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	h.WriteString(key.App)
	h.WriteByte(0)
	h.WriteString(key.Type)
	h.WriteByte(0)
	h.WriteString(key.ID)
	return &r.until[h.Sum64()%repeatPlaces]
}

// Note records that a call of an actor was repeated.
func (r *Repeats) Note(key *actor.Key, now time.Time) {
	r.place(key).Store(now.Add(repeatWindow).UnixNano())
}

// Recent reports whether a call of an actor was repeated within repeatWindow.
func (r *Repeats) Recent(key *actor.Key, now time.Time) bool {
	return now.UnixNano() < r.place(key).Load()
}
