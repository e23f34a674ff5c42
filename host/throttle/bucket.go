package throttle

import (
	"math"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// bucket is a token bucket. The zero value is full.
type bucket struct {
	missing float64 // tokens below its burst, at a time
	at      time.Time
}

// refill brings the bucket up to date, at a rate per second.
func (b *bucket) refill(rate float64, now time.Time) {
	if now.After(b.at) {
		b.missing = max(0, b.missing-rate*now.Sub(b.at).Seconds())
		b.at = now
	}
}

// slack is the part of a burst that may be missing. Waiting times are rounded, and a call that has waited for its
// RetryAfter must not be refused again. The missing part counts against the next call.
const slack = 1e-9

// longestWait bounds what a refused call is told to wait.
const longestWait = time.Hour

// wait returns how long it takes until a bucket with so many tokens too few has them.
func wait(tokens, rate float64) time.Duration {
	if seconds := tokens / rate; seconds < longestWait.Seconds() {
		return time.Duration(math.Ceil(seconds * float64(time.Second)))
	}
	return longestWait
}

// meter enforces one rate, for each key. All methods may be called concurrently.
type meter struct {
	rate  actor.Rate
	most  int // keys in memory
	mu    sync.Mutex
	keys  map[string]*bucket
	spare *bucket // that of the empty key, which is never evicted
}

func newMeter(rate actor.Rate, most int) *meter {
	return &meter{rate: rate, most: max(1, most), keys: make(map[string]*bucket), spare: &bucket{}}
}

// share returns the rate and the burst of one of so many hosts.
func (m *meter) share(hosts int) (rate, burst float64) {
	rate, burst = m.rate.PerSecond/float64(hosts), m.rate.Burst/float64(hosts)
	if m.rate.Burst == 0 {
		burst = rate
	}
	return rate, max(1, burst)
}

// of returns the bucket of a key. The caller has the lock.
func (m *meter) of(key string) *bucket {
	if key == "" {
		return m.spare
	}
	b := m.keys[key]
	if b == nil {
		if len(m.keys) >= m.most {
			for other := range m.keys { // any: its key has a full bucket again
				delete(m.keys, other)
				break
			}
		}
		b = &bucket{}
		m.keys[key] = b
	}
	return b
}

// take takes tokens from the bucket of a key at one of so many hosts, or returns how long to wait for them. Zero tokens are
// there while the bucket is not below zero.
func (m *meter) take(key string, tokens float64, hosts int, now time.Time) (retry time.Duration, ok bool) {
	rate, burst := m.share(hosts)
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.of(key)
	b.refill(rate, now)
	if few := b.missing + tokens - burst; few > slack*burst {
		return wait(few, rate), false
	}
	b.missing += tokens
	return 0, true
}

// spend takes tokens though they may not be there; negative ones are given back.
func (m *meter) spend(key string, tokens float64, hosts int, now time.Time) {
	rate, _ := m.share(hosts)
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.of(key)
	b.refill(rate, now)
	b.missing = max(0, b.missing+tokens)
}
