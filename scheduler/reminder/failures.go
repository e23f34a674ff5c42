package reminder

import "sync"

// failure is a delivery that ended with an error.
type failure struct {
	delivery *delivery
	err      error
	timeout  bool // its time was out
}

// failures finishes deliveries that failed, on one goroutine for all that wait: with a goroutine
// for each, an app whose turns all fail would have hundreds that want a processor before anybody
// else's. The zero value is ready once finish is set. Its methods may be called concurrently.
type failures struct {
	finish func(d *delivery, err error, timeout bool)

	mu      sync.Mutex
	working bool
	waiting []failure
}

// add has a failure finished, and waits for nothing.
func (fs *failures) add(f failure) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.waiting = append(fs.waiting, f)
	if !fs.working {
		fs.working = true
		go fs.work()
	}
}

func (fs *failures) work() {
	for {
		fs.mu.Lock()
		list := fs.waiting
		fs.waiting = nil
		fs.working = len(list) > 0
		fs.mu.Unlock()
		if len(list) == 0 {
			return
		}
		for _, f := range list {
			fs.finish(f.delivery, f.err, f.timeout)
		}
	}
}
