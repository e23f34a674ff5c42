package server

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	healthv1 "github.com/greenroom-run/greenroom/api/gen/grpc/health/v1"
	"github.com/greenroom-run/greenroom/api/gen/grpc/health/v1/healthv1connect"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
)

// protocol is one way to speak to the server.
type protocol struct {
	name  string
	http2 bool
	opts  []connect.ClientOption
}

func protocols() []protocol {
	var ps []protocol
	for _, http2 := range []bool{false, true} {
		version := map[bool]string{false: "HTTP/1.1", true: "h2c"}[http2]
		for _, codec := range []string{"proto", "json"} {
			var opts []connect.ClientOption
			if codec == "json" {
				opts = append(opts, connect.WithProtoJSON())
			}
			add := func(name string, more ...connect.ClientOption) {
				ps = append(ps, protocol{fmt.Sprintf("%s %s %s", name, codec, version), http2, append(more, opts...)})
			}
			add("Connect")
			add("Connect with GET", connect.WithHTTPGet())
			add("Connect with gzip", connect.WithSendGzip())
			add("gRPC-Web", connect.WithGRPCWeb())
			if http2 {
				add("gRPC", connect.WithGRPC())
			}
		}
	}
	return ps
}

// TestProtocols calls both services over everything that they speak.
func TestProtocols(t *testing.T) {
	f := start(t, nil)
	for _, p := range protocols() {
		t.Run(p.name, func(t *testing.T) {
			c := client(t, p.http2)
			actors := greenroomv1connect.NewActorServiceClient(c, f.url, p.opts...)
			mods := greenroomv1connect.NewModuleServiceClient(c, f.url, p.opts...)
			id := "a||b/c d🎭"
			payload := []byte{0, 1, 0xff, '"'}

			res, err := actors.Invoke(t.Context(), connect.NewRequest(&greenroomv1.InvokeRequest{
				Actor: &greenroomv1.ActorKey{Type: "Counter", Id: id}, Method: "Add", Payload: payload, ContentType: "x/y",
			}))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(res.Msg.GetPayload(), payload) || res.Msg.GetContentType() != "x/y" || res.Msg.GetVersion() == 0 {
				t.Errorf("got %v", res.Msg)
			}
			inv, _ := f.host.last()
			if inv.Key != key(id) || inv.Method != "Add" || inv.ReadOnly || inv.ID == "" || inv.ID != res.Header().Get(edge.HeaderRequestID) {
				t.Errorf("the host got %+v; request ID %q", inv, res.Header().Get(edge.HeaderRequestID))
			}

			query, err := actors.Query(t.Context(), connect.NewRequest(&greenroomv1.QueryRequest{
				Actor: &greenroomv1.ActorKey{Type: "Counter", Id: id}, Method: "Get", Payload: payload,
				Consistency: greenroomv1.Consistency_CONSISTENCY_STRONG,
			}))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(query.Msg.GetPayload(), payload) {
				t.Errorf("got %v", query.Msg)
			}
			if inv, _ := f.host.last(); !inv.ReadOnly || inv.Consistency != actor.ConsistencyStrong {
				t.Errorf("the host got %+v", inv)
			}

			_, err = actors.Query(t.Context(), connect.NewRequest(&greenroomv1.QueryRequest{
				Actor: &greenroomv1.ActorKey{App: "shop", Type: "Counter", Id: id}, Method: "Add",
			}))
			wantError(t, err, connect.CodeFailedPrecondition, "not_read_only")
			if _, d := detailOf(t, err); d.GetApp() != "shop" || d.GetActorType() != "Counter" || d.GetActorId() != id || d.GetMethod() != "Add" {
				t.Errorf("detail %v", d)
			}

			_, err = actors.GetActor(t.Context(), connect.NewRequest(&greenroomv1.GetActorRequest{Actor: &greenroomv1.ActorKey{Type: "Counter"}}))
			wantError(t, err, connect.CodeInvalidArgument, "invalid_argument")

			_, err = mods.Deploy(t.Context(), connect.NewRequest(&greenroomv1.DeployRequest{Digest: "abcdef"}))
			wantError(t, err, connect.CodeNotFound, "module_not_found")
		})
	}
}

func TestQueryIsAnHTTPGet(t *testing.T) {
	f := start(t, nil)
	seen := make(chan string, 1)
	c := client(t, false)
	inner := c.Transport
	c.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		seen <- r.Method
		return inner.RoundTrip(r)
	})
	actors := greenroomv1connect.NewActorServiceClient(c, f.url, connect.WithHTTPGet())
	res, err := actors.Query(t.Context(), connect.NewRequest(&greenroomv1.QueryRequest{Actor: &greenroomv1.ActorKey{Type: "Counter", Id: "a"}, Method: "Get"}))
	if err != nil {
		t.Fatal(err)
	}
	if m := <-seen; m != http.MethodGet {
		t.Errorf("sent as %s", m)
	}
	if cc := res.Header().Get("Cache-Control"); cc != "no-store" {
		t.Errorf("Cache-Control is %q: a cache would serve old state", cc)
	}
	if a := do(t, client(t, false), "GET", f.url+greenroomv1connect.ActorServiceInvokeProcedure+"?encoding=json&message={}", ""); a.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("Invoke by GET: %s", a.Status)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCurl is what the documentation tells people to type.
func TestCurl(t *testing.T) {
	f := start(t, nil)
	a := do(t, client(t, false), "POST", f.url+"/greenroom.v1.ActorService/Invoke",
		`{"actor":{"type":"Counter","id":"me"},"method":"Add","payload":"eyJhIjoxfQ=="}`, "Content-Type", "application/json")
	if a.StatusCode != http.StatusOK || !strings.Contains(a.body, "eyJhIjoxfQ==") {
		t.Errorf("%s %s", a.Status, a.body)
	}
	if inv, _ := f.host.last(); string(inv.Payload.Data) != `{"a":1}` {
		t.Errorf("payload %q", inv.Payload.Data)
	}
}

func TestDeadlineReachesTheHost(t *testing.T) {
	f := start(t, nil)
	for _, p := range protocols() {
		f.host.does(func(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
			if _, ok := ctx.Deadline(); !ok {
				t.Errorf("%s: no deadline", p.name)
			}
			return actor.Reply{}, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		actors := greenroomv1connect.NewActorServiceClient(client(t, p.http2), f.url, p.opts...)
		_, err := actors.Invoke(ctx, connect.NewRequest(&greenroomv1.InvokeRequest{Actor: &greenroomv1.ActorKey{Type: "T", Id: "a"}, Method: "M"}))
		cancel()
		if err != nil {
			t.Error(err)
		}
	}
}

// TestCallerGone: the host learns that nobody waits any more.
func TestCallerGone(t *testing.T) {
	f := start(t, nil)
	for _, http2 := range []bool{false, true} {
		entered, _, ended := f.host.blocks()
		ctx, cancel := context.WithCancel(t.Context())
		actors := greenroomv1connect.NewActorServiceClient(client(t, http2), f.url)
		go func() {
			<-entered
			cancel()
		}()
		_, err := actors.Invoke(ctx, connect.NewRequest(&greenroomv1.InvokeRequest{Actor: &greenroomv1.ActorKey{Type: "T", Id: "a"}, Method: "M"}))
		if connect.CodeOf(err) != connect.CodeCanceled {
			t.Errorf("got %v", err)
		}
		if err := <-ended; err != context.Canceled { //nolint:errorlint // it is that one
			t.Errorf("http2=%v: the host's context ended with %v", http2, err)
		}
	}
}

// TestValidation: what is malformed never reaches the host, which does not look.
func TestValidation(t *testing.T) {
	f := start(t, nil)
	c := client(t, true)
	actors := greenroomv1connect.NewActorServiceClient(c, f.url, connect.WithGRPC())
	invoke := func(k *greenroomv1.ActorKey, method, contentType string) error {
		_, err := actors.Invoke(t.Context(), connect.NewRequest(&greenroomv1.InvokeRequest{Actor: k, Method: method, ContentType: contentType}))
		return err
	}
	good := &greenroomv1.ActorKey{Type: "T", Id: "a"}
	for name, err := range map[string]error{
		"no actor":          invoke(nil, "M", ""),
		"no type":           invoke(&greenroomv1.ActorKey{Id: "a"}, "M", ""),
		"no id":             invoke(&greenroomv1.ActorKey{Type: "T"}, "M", ""),
		"bad app":           invoke(&greenroomv1.ActorKey{App: "a/b", Type: "T", Id: "a"}, "M", ""),
		"bad type":          invoke(&greenroomv1.ActorKey{Type: "T|", Id: "a"}, "M", ""),
		"long type":         invoke(&greenroomv1.ActorKey{Type: strings.Repeat("T", 65), Id: "a"}, "M", ""),
		"long id":           invoke(&greenroomv1.ActorKey{Type: "T", Id: strings.Repeat("x", 513)}, "M", ""),
		"control character": invoke(&greenroomv1.ActorKey{Type: "T", Id: "a\nb"}, "M", ""),
		"no method":         invoke(good, "", ""),
		"bad method":        invoke(good, "a b", ""),
		"newline in method": invoke(good, "M\n", ""),
		"long content type": invoke(good, "M", strings.Repeat("x", 256)),
	} {
		t.Run(name, func(t *testing.T) { wantError(t, err, connect.CodeInvalidArgument, "invalid_argument") })
	}
	odd := &greenroomv1.ActorKey{Type: "T", Id: "a\nb"}
	for name, call := range map[string]func() error{
		"query": func() error {
			_, err := actors.Query(t.Context(), connect.NewRequest(&greenroomv1.QueryRequest{Actor: odd, Method: "M"}))
			return err
		},
		"get actor": func() error {
			_, err := actors.GetActor(t.Context(), connect.NewRequest(&greenroomv1.GetActorRequest{Actor: odd}))
			return err
		},
		"get state": func() error {
			_, err := actors.GetState(t.Context(), connect.NewRequest(&greenroomv1.GetStateRequest{Actor: odd}))
			return err
		},
		"delete": func() error {
			_, err := actors.DeleteActor(t.Context(), connect.NewRequest(&greenroomv1.DeleteActorRequest{Actor: odd}))
			return err
		},
	} {
		t.Run("control character, "+name, func(t *testing.T) { wantError(t, call(), connect.CodeInvalidArgument, "invalid_argument") })
	}
	if inv, ok := f.host.last(); ok || len(f.host.deleted) != 0 {
		t.Errorf("the host was called: %+v, %v", inv, f.host.deleted)
	}
	if err := invoke(good, "M", "text/plain"); err != nil {
		t.Error(err)
	}
}

// TestUndecodable: what is no message gets a typed error in every protocol.
func TestUndecodable(t *testing.T) {
	f := start(t, nil)
	c := client(t, true)
	url := f.url + greenroomv1connect.ActorServiceInvokeProcedure
	for _, tt := range []struct{ name, contentType, body string }{
		{"JSON, cut", "application/json", `{"actor":`},
		{"JSON, no object", "application/json", `[1]`},
		{"JSON, wrong type", "application/json", `{"actor":7}`},
		{"JSON, no base64", "application/json", `{"payload":"%"}`},
		{"JSON, empty", "application/json", ``},
		{"JSON, deep", "application/json", strings.Repeat(`{"actor":`, 100_000)},
		{"JSON, not UTF-8", "application/json; charset=utf-8", "{\"method\":\"\xff\"}"},
		{"Protobuf, cut", "application/proto", "\x0a\x05a"},
		{"Protobuf, noise", "application/proto", "\xff\xff\xff\xff\xff"},
		{"Protobuf, not UTF-8", "application/proto", "\x12\x01\xff"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := do(t, c, "POST", url, tt.body, "Content-Type", tt.contentType)
			if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, `"kind":"invalid_argument"`) {
				t.Errorf("%s %s", a.Status, a.body)
			}
		})
	}
	for _, contentType := range []string{"application/grpc", "application/grpc-web+proto"} {
		a := do(t, c, "POST", url, "\x00\x00\x00\x00\x03\x0a\x05a", "Content-Type", contentType)
		status := a.Trailer.Get("Grpc-Status") + a.Header.Get("Grpc-Status")
		details := a.Trailer.Get("Grpc-Status-Details-Bin") + a.Header.Get("Grpc-Status-Details-Bin")
		if strings.Contains(contentType, "web") && status == "" {
			status, details = "3", a.body // trailers are in the body
			if !strings.Contains(a.body, "grpc-status: 3") {
				status = a.body
			}
		}
		if status != "3" || details == "" {
			t.Errorf("%s: status %q, details %q", contentType, status, details)
		}
	}
	if _, ok := f.host.last(); ok {
		t.Error("the host was called")
	}
}

// TestUnknownFieldsPass: a newer client's fields are no error, in the binary form, which
// nobody writes by hand.
func TestUnknownFieldsPass(t *testing.T) {
	f := start(t, nil)
	body, err := proto.Marshal(&greenroomv1.InvokeRequest{Actor: &greenroomv1.ActorKey{Type: "T", Id: "a"}, Method: "M"})
	if err != nil {
		t.Fatal(err)
	}
	body = protowire.AppendVarint(protowire.AppendTag(body, 2000, protowire.VarintType), 1)
	if a := do(t, client(t, false), "POST", f.url+greenroomv1connect.ActorServiceInvokeProcedure, string(body), "Content-Type", "application/proto"); a.StatusCode != http.StatusOK {
		t.Errorf("%s %s", a.Status, a.body)
	}
}

func TestPanicIsAnInternalError(t *testing.T) {
	f := start(t, nil)
	f.host.does(func(context.Context, actor.Invocation) (actor.Reply, error) { panic("secret of ours") })
	for _, p := range protocols() {
		actors := greenroomv1connect.NewActorServiceClient(client(t, p.http2), f.url, p.opts...)
		_, err := actors.Invoke(t.Context(), connect.NewRequest(&greenroomv1.InvokeRequest{Actor: &greenroomv1.ActorKey{Type: "T", Id: "a"}, Method: "M"}))
		t.Run(p.name, func(t *testing.T) { wantError(t, err, connect.CodeInternal, failure.KindInternal) })
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the caller was told: %v", p.name, err)
		}
	}
	a := do(t, client(t, false), "PUT", f.url+actorPath(key("a"), "M"), "1")
	w := a.failure(t)
	if a.StatusCode != http.StatusInternalServerError || w.Kind != "internal" || w.RequestID != a.Header.Get(edge.HeaderRequestID) {
		t.Errorf("%s %s", a.Status, a.body)
	}
	if log := f.log.String(); !strings.Contains(log, "secret of ours") || !strings.Contains(log, w.RequestID) {
		t.Error("the log does not tell the panic under the request's ID")
	}
}

// TestInternalErrorsAreTold: neutrally to the caller, in full to the log, under
// one ID.
func TestInternalErrorsAreTold(t *testing.T) {
	f := start(t, nil)
	f.host.fails(fmt.Errorf("pq: relation %q", "secret"))
	a := do(t, client(t, false), "PUT", f.url+actorPath(key("a"), "M"), "1")
	w := a.failure(t)
	if w.Kind != "internal" || strings.Contains(a.body, "secret") || !strings.Contains(w.Message, w.RequestID) {
		t.Errorf("%s", a.body)
	}
	if log := f.log.String(); !strings.Contains(log, "secret") || !strings.Contains(log, w.RequestID) {
		t.Error("the log does not tell the error under the request's ID")
	}
}

func TestUnknownProcedures(t *testing.T) {
	f := start(t, nil)
	c := client(t, true)
	a := do(t, c, "POST", f.url+"/greenroom.v1.ActorService/Nothing", "{}", "Content-Type", "application/json")
	if w := a.failure(t); a.StatusCode != http.StatusNotFound || w.Kind != "path_not_found" {
		t.Errorf("%s %s", a.Status, a.body)
	}
	a = do(t, c, "POST", f.url+"/greenroom.v1.ActorService/Nothing", "", "Content-Type", "application/grpc")
	if s := a.Trailer.Get("Grpc-Status"); s != "12" {
		t.Errorf("%s, gRPC status %q", a.Status, s)
	}
}

func TestReflection(t *testing.T) {
	f := start(t, nil)
	c := grpcreflect.NewClient(client(t, true), f.url, connect.WithGRPC())
	stream := c.NewStream(t.Context())
	defer func() { _, _ = stream.Close() }()
	names, err := stream.ListServices()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 5 {
		t.Errorf("services %v", names)
	}
	for _, name := range names {
		files, err := stream.FileContainingSymbol(name)
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", name, len(files), err)
		}
	}
	// Older tools know only v1alpha.
	a := do(t, client(t, true), "POST", f.url+"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
		"\x00\x00\x00\x00\x02\x3a\x00", "Content-Type", "application/grpc")
	if s := a.Trailer.Get("Grpc-Status"); s != "0" || !strings.Contains(a.body, "greenroom.v1.ActorService") {
		t.Errorf("v1alpha: %s, gRPC status %q", a.Status, s)
	}
}

func TestHealth(t *testing.T) {
	failing := make(chan error)
	f := start(t, func(c *Config) {
		c.Token = "not-needed-for-health"
		c.Check = func(ctx context.Context) error {
			select {
			case err := <-failing:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c.Bounds.HealthInterval = time.Hour
	})
	for _, p := range protocols() {
		if p.name == "Connect with GET" {
			continue
		}
		c := healthv1connect.NewHealthClient(client(t, p.http2), f.url, p.opts...)
		res, err := c.Check(t.Context(), connect.NewRequest(&healthv1.HealthCheckRequest{Service: "greenroom.v1.ActorService"}))
		if err != nil || res.Msg.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("%s: before the first check: %v, %v", p.name, res, err)
		}
		_, err = c.Check(t.Context(), connect.NewRequest(&healthv1.HealthCheckRequest{Service: "x"}))
		wantError(t, err, connect.CodeNotFound, failure.KindServiceNotFound)
	}
	if a := do(t, client(t, false), "GET", f.url+"/readyz", ""); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/readyz before the first check: %s", a.Status)
	}
	if a := do(t, client(t, false), "GET", f.url+"/healthz", ""); a.StatusCode != http.StatusOK {
		t.Errorf("/healthz: %s", a.Status)
	}

	c := healthv1connect.NewHealthClient(client(t, true), f.url, connect.WithGRPC())
	watch, err := c.Watch(t.Context(), connect.NewRequest(&healthv1.HealthCheckRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Close() }()
	next := func(want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if !watch.Receive() || watch.Msg().GetStatus() != want {
			t.Fatalf("got %v, %v; want %v", watch.Msg(), watch.Err(), want)
		}
	}
	next(healthv1.HealthCheckResponse_NOT_SERVING)
	failing <- nil
	next(healthv1.HealthCheckResponse_SERVING)
	if a := do(t, client(t, false), "GET", f.url+"/readyz", ""); a.StatusCode != http.StatusOK {
		t.Errorf("/readyz: %s", a.Status)
	}
	unknown, err := c.Watch(t.Context(), connect.NewRequest(&healthv1.HealthCheckRequest{Service: "x"}))
	if err != nil || !unknown.Receive() || unknown.Msg().GetStatus() != healthv1.HealthCheckResponse_SERVICE_UNKNOWN {
		t.Errorf("unknown service: %v", err)
	}
	_ = unknown.Close()

	stopped := make(chan error, 1)
	go func() { stopped <- f.Stop(context.Background()) }()
	next(healthv1.HealthCheckResponse_NOT_SERVING)
	if watch.Receive() {
		t.Error("the watch goes on after Stop")
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
