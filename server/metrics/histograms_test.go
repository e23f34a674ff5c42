package metrics

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
)

const (
	acceptOpenMetrics = "application/openmetrics-text;version=1.0.0"
	acceptProtobuf    = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

	traceID             = "0af7651916cd43dd8448eb211c80319c"
	sampled, notSampled = "00-" + traceID + "-b7ad6b7169203331-01", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// scrape asks for metrics in a format.
func scrape(t *testing.T, m *Metrics, accept string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w
}

// histograms returns the histograms that a scrape with Protobuf has, by the names of their families.
func histograms(t *testing.T, m *Metrics) map[string][]*dto.Histogram {
	t.Helper()
	w := scrape(t, m, acceptProtobuf)
	if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "application/vnd.google.protobuf") {
		t.Fatalf("the answer is %s", got)
	}
	found := map[string][]*dto.Histogram{}
	for body := bufio.NewReader(w.Body); ; {
		var family dto.MetricFamily
		err := protodelim.UnmarshalFrom(body, &family)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, metric := range family.GetMetric() {
			if h := metric.GetHistogram(); h != nil {
				found[family.GetName()] = append(found[family.GetName()], h)
			}
		}
	}
}

func turn(took time.Duration, traceparent string) host.TurnEnd {
	return host.TurnEnd{
		Key: actor.Key{App: "shop", Type: "Cart", ID: "ann"}, Method: "Add", Lane: host.LaneWarm, Duration: took, QueueWait: took / 2,
		Trace: actor.ParseTrace(traceparent),
	}
}

// TestExemplars: a scrape as OpenMetrics has the traces of sampled calls beside the buckets of their
// times, of others none; plain text is as it was.
func TestExemplars(t *testing.T) {
	m := New()
	ended := m.HostEvents().TurnEnd
	ended(turn(3*time.Millisecond, notSampled))
	ended(turn(3*time.Millisecond, ""))
	m.Route("/v2.0/actors").Served(http.StatusOK, 3*time.Millisecond, nil)
	if text := scrape(t, m, acceptOpenMetrics).Body.String(); strings.Contains(text, "trace_id") {
		t.Error("a call that is not sampled has an exemplar")
	}
	ended(turn(3*time.Millisecond, sampled))
	m.Route("/v2.0/actors").Served(http.StatusOK, 3*time.Millisecond, actor.ParseTrace(sampled))
	w := scrape(t, m, acceptOpenMetrics)
	if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "application/openmetrics-text") {
		t.Errorf("the answer is %s", got)
	}
	text := w.Body.String()
	for _, want := range []string{
		`greenroom_turn_seconds_bucket{app="shop",lane="warm",type="Cart",le="0.005"} 3 # {trace_id="` + traceID + `"} 0.003 `,
		`greenroom_turn_queue_seconds_bucket{app="shop",lane="warm",type="Cart",le="0.0025"} 3 # {trace_id="` + traceID + `"} 0.0015 `,
		`greenroom_http_request_seconds_bucket{route="/v2.0/actors",le="0.005"} 2 # {trace_id="` + traceID + `"} 0.003 `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if n := strings.Count(text, "trace_id"); n != 3 {
		t.Errorf("%d exemplars; want 3", n)
	}
	plain := scrape(t, m, "text/plain").Body.String()
	if strings.Contains(plain, "trace_id") || !strings.Contains(plain, `greenroom_turn_seconds_bucket{app="shop",lane="warm",type="Cart",le="1"} 3`) {
		t.Error("plain text has exemplars, or no buckets")
	}
}

// TestNativeHistograms: a scrape with Protobuf has native buckets of every histogram beside the classic
// ones, never more than their bound, and the exemplars of sampled calls.
func TestNativeHistograms(t *testing.T) {
	m := New()
	events := m.HostEvents()
	m.ReminderEvents()
	m.ClusterEvents()
	events.Commit(host.CommitEnd{Lane: host.LaneWarm, GroupSize: 3, Duration: time.Millisecond})
	m.Route("/v2.0/actors").Served(http.StatusOK, time.Millisecond, nil)
	took := time.Microsecond
	for range 500 { // more than nine decades, and the buckets hold six
		events.TurnEnd(turn(took, ""))
		took += took/20 + 1
	}
	events.TurnEnd(turn(time.Second, sampled))

	found := histograms(t, m)
	if len(found) < 12 {
		t.Errorf("%d histograms were scraped", len(found))
	}
	for name, all := range found {
		if h := all[0]; h.Schema == nil || h.ZeroThreshold == nil || len(h.GetBucket()) == 0 {
			t.Errorf("%s has no native buckets, or no classic ones: %v", name, h)
		}
	}
	h := found["greenroom_turn_seconds"][0]
	var native, counted int64
	n := int64(0)
	for _, delta := range h.GetPositiveDelta() {
		n += delta
		counted += n
		if n > 0 {
			native++
		}
	}
	if counted+int64(h.GetZeroCount()) != 501 || h.GetSampleCount() != 501 {
		t.Errorf("the native buckets have %d and %d of %d", counted, h.GetZeroCount(), h.GetSampleCount())
	}
	if native < 20 || native > nativeBuckets {
		t.Errorf("%d native buckets; want 20 to %d", native, nativeBuckets)
	}
	if e := h.GetExemplars(); len(e) != 1 || e[0].GetLabel()[0].GetValue() != traceID {
		t.Errorf("the exemplars are %v", e)
	}
}
