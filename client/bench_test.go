package client

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
)

// echo is a host that does nothing.
type echo struct{ *fakeHost }

func (echo) Invoke(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
	return actor.Reply{Payload: inv.Payload, Version: 1}, nil
}

func (e echo) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	to.Answer(e.Invoke(ctx, inv))
	return nil
}

// cpu is what this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCalls compares calls over a stream with the same client's unary calls:
// a real server on loopback and a host that does nothing, both ends in this
// process. x-unary is how many calls over the stream one unary call costs.
func BenchmarkCalls(b *testing.B) {
	s := startServer(b, echo{}, "127.0.0.1:0", nil)
	// The requests as HTTP/2 has them, too, which is what the stream uses.
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	h2 := &http.Transport{Protocols: p}
	defer h2.CloseIdleConnections()
	payload := []byte(`{"amount":1}`)
	for _, callers := range []int{1, 64, 1024} {
		perCall := make(map[string]float64)
		for _, way := range []struct {
			name   string
			change func(*Config)
		}{
			{"unary", func(c *Config) { c.Unary = true }},
			{"unary-h2", func(c *Config) { c.Unary, c.HTTPClient = true, &http.Client{Transport: h2} }},
			{"stream", nil},
			{"streams=2", func(c *Config) { c.Streams = 2 }},
			{"stream-keys", func(c *Config) { c.IdempotencyKeys = true }},
		} {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, way.name), func(b *testing.B) {
				c := newClient(b, "http://"+s.Addr().String(), way.change)
				if _, err := c.Invoke(b.Context(), "Counter", "a", "Add", payload); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				before := cpu(b)
				b.ResetTimer()
				var left atomic.Int64
				left.Store(int64(b.N))
				var working sync.WaitGroup
				for n := range callers {
					id := fmt.Sprint("counter-", n)
					working.Go(func() {
						for left.Add(-1) >= 0 {
							if _, err := c.Invoke(b.Context(), "Counter", id, "Add", payload); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				working.Wait()
				b.StopTimer()
				b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
				perCall[way.name] = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
				for _, unary := range []string{"unary", "unary-h2"} {
					if perCall[unary] > 0 && unary != way.name {
						b.ReportMetric(perCall[unary]/perCall[way.name], "x-"+unary)
					}
				}
			})
		}
	}
}
