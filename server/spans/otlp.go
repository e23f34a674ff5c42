package spans

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector is an OTLP collector that is reached over HTTP: the client of
// [go.opentelemetry.io/otel/exporters/otlp/otlptrace]. OpenTelemetry's own links gRPC and its
// gateway.
type collector struct {
	url    string
	header http.Header
	gzip   bool
	client http.Client
	pause  time.Duration // before a batch is sent for the second time, unless the collector wants longer
}

// exports is how often a batch is sent at most.
const exports = 4

// newCollector returns the collector that the variables of OpenTelemetry name.
func newCollector() (*collector, error) {
	c := &collector{url: os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), header: http.Header{"Content-Type": {"application/x-protobuf"}}, pause: time.Second}
	if c.url == "" {
		c.url = strings.TrimSuffix(cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "http://localhost:4318"), "/") + "/v1/traces"
	}
	if u, err := url.Parse(c.url); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT is %q; give a URL like http://127.0.0.1:4318", c.url)
	}
	for pair := range strings.SplitSeq(variable("HEADERS"), ",") {
		name, value, ok := strings.Cut(pair, "=")
		if value, err := url.PathUnescape(strings.TrimSpace(value)); ok && err == nil {
			c.header.Set(strings.TrimSpace(name), value)
		}
	}
	switch z := variable("COMPRESSION"); z {
	case "", "none":
	case "gzip":
		c.gzip = true
		c.header.Set("Content-Encoding", "gzip")
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION is %q; use gzip or none", z)
	}
	ms, err := strconv.Atoi(cmp.Or(variable("TIMEOUT"), "10000"))
	if err != nil || ms <= 0 {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %q; give milliseconds", variable("TIMEOUT"))
	}
	c.client.Timeout = time.Duration(ms) * time.Millisecond
	return c, nil
}

// variable returns the value of a variable of the exporter: that of traces, or of all signals.
func variable(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// Start implements [otlptrace.Client].
func (*collector) Start(context.Context) error { return nil }

// Stop implements [otlptrace.Client].
func (c *collector) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements [otlptrace.Client]. TracesData has the form of the request of
// TraceService.Export.
func (c *collector) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if c.gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body) // into memory
		_ = z.Close()
		body = b.Bytes()
	}
	for pause, n := c.pause, 1; ; pause, n = 2*pause, n+1 {
		after, err := c.send(ctx, body)
		if err == nil || after < 0 || n == exports {
			return err
		}
		select {
		case <-time.After(max(after, pause)):
		case <-ctx.Done():
			return err
		}
	}
}

// send sends a batch once. If that has failed, after is how long the collector wants nothing;
// negative: it does not want the batch at all.
func (c *collector) send(ctx context.Context, body []byte) (after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	req.Header = c.header
	res, err := c.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 256))
	switch {
	case res.StatusCode < http.StatusMultipleChoices:
		return 0, nil
	case res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusBadGateway, res.StatusCode == http.StatusServiceUnavailable, res.StatusCode == http.StatusGatewayTimeout:
		s, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		after = time.Duration(max(0, s)) * time.Second
	default:
		after = -1
	}
	return after, fmt.Errorf("the collector at %s answers %s: %q", c.url, res.Status, text)
}
