package sight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/must"
)

// CollectorRole takes spans over HTTP, and says how many bytes have come when it ends.
const CollectorRole = "collector"

const (
	tracesOff     = "switched off"
	tracesSampled = "sampled 1 in 100"

	turnActors  = 10_000
	outstanding = 256
)

// traces is sight.4.
func traces(b *bar.B) {
	b.Note("the baseline of %q is the same host, whose calls have no trace; the subject asks a recorder with OTEL_TRACES_SAMPLER=always_off for each. "+
		"A server that exports no spans does less than that", tracesOff)
	guest := b.Guest()
	b.Each(func(run int) {
		var url string
		collector := b.Start(CollectorRole, nil, &url)
		use := bar.Call[inhost.TracesUse](b, inhost.TracesRole, inhost.TracesSpec{
			Spec: inhost.Spec{
				Dir: b.Folder(), Wasm: guest, Plan: b.Plan(outstanding, turnActors, nil), StateBytes: storedBytes, Method: "Add", Payload: "1",
			},
			Collector: url,
		})
		b.Compare(tracesOff, bar.Micros(use.Off), bar.Micros(use.None))
		b.Compare(tracesSampled, bar.Micros(use.Sampled), bar.Micros(use.Off))
		collector.End()
		var got int64
		must.Check(collector.Answer(&got))
		if got == 0 {
			must.Check(fmt.Errorf("run %d: no span has reached the collector", run))
		}
		b.Note("run %d: %d KB of spans were exported", run, got/1000)
	})
}

// Collector plays [CollectorRole]: it says its URL, and at the end the number of bytes.
func Collector(ctx context.Context, _ json.RawMessage, say func(any) error) error {
	var got atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err == nil && r.URL.Path == "/v1/traces" {
			got.Add(n)
		}
	})}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	if err := say("http://" + l.Addr().String()); err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	if err := s.Close(); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return say(got.Load())
}
