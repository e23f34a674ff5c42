package embedded

import (
	"sync"
	"sync/atomic"
)

// flight is a batch that can be read and is not yet known to be durable.
type flight struct {
	keys []string      // actor rows in it
	done chan struct{} // closed when it is durable; never, if the store fails first
}

// flights are the batches on their way to the disk.
type flights struct {
	latest atomic.Pointer[flight] // the one applied last, landed or not; nil: none yet

	mu    sync.Mutex
	byKey map[string]*flight // the latest one over each actor row
}

// takeOff registers a batch. The writer alone calls it, before it applies the
// batch: who reads the batch then finds the flight, or the flight has landed.
func (fs *flights) takeOff(keys []string) *flight {
	f := &flight{keys: keys, done: make(chan struct{})}
	fs.mu.Lock()
	if fs.byKey == nil {
		fs.byKey = make(map[string]*flight)
	}
	for _, k := range keys {
		fs.byKey[k] = f
	}
	fs.mu.Unlock()
	fs.latest.Store(f)
	return f
}

// land says that a flight is durable.
func (fs *flights) land(f *flight) {
	fs.mu.Lock()
	for _, k := range f.keys {
		if fs.byKey[k] == f {
			delete(fs.byKey, k)
		}
	}
	fs.mu.Unlock()
	close(f.done)
}

// over returns the flight over an actor row, nil if what is stored is durable.
func (fs *flights) over(key string) *flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.byKey[key]
}
