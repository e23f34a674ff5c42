package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/feed"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
)

const radioService = "radio.v1.RadioService"

// radioFiles describes a service with a stream.
const radioFiles = `{"file": [{
  "name": "radio.proto", "package": "radio.v1", "syntax": "proto3",
  "messageType": [
    {"name": "Station", "field": [{"name": "station", "jsonName": "station", "number": 1, "label": "LABEL_OPTIONAL", "type": "TYPE_STRING"}]},
    {"name": "Song", "field": [
      {"name": "title", "jsonName": "title", "number": 1, "label": "LABEL_OPTIONAL", "type": "TYPE_STRING"},
      {"name": "greenroom_position", "jsonName": "greenroomPosition", "number": 2, "label": "LABEL_OPTIONAL", "type": "TYPE_STRING"}
    ]}
  ],
  "service": [{"name": "RadioService", "method": [
    {"name": "Listen", "inputType": ".radio.v1.Station", "outputType": ".radio.v1.Song", "serverStreaming": true},
    {"name": "Play", "inputType": ".radio.v1.Station", "outputType": ".radio.v1.Song"}
  ]}]
}]}`

// radio is a station whose events are in memory, and a server that serves it.
type radio struct {
	*fixture
	feed          *feed.Feed
	station, song protoreflect.MessageDescriptor

	mu      sync.Mutex
	events  []actor.Event
	trimmed actor.EventPosition
}

// withRadio has a server serve the events of the radio.
func withRadio(c *Config) *radio {
	r := new(radio)
	r.feed = feed.New(feed.Config{Store: r, Logger: slog.New(slog.DiscardHandler), Retention: func(string, string) feed.Retention { return feed.Retention{} }})
	c.Feed = r.feed
	return r
}

func startRadio(t *testing.T, change func(*Config)) *radio {
	t.Helper()
	var r *radio
	f := start(t, func(c *Config) {
		r = withRadio(c)
		if change != nil {
			change(c)
		}
	})
	r.fixture = f
	r.deploy(t, "Radio")
	return r
}

// deploy serves the service by a type, with changes of its descriptor.
func (r *radio) deploy(t *testing.T, typ string, changes ...string) {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	if err := protojson.Unmarshal([]byte(strings.NewReplacer(changes...).Replace(radioFiles)), &set); err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(&set)
	if err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatal(err)
	}
	find := func(name protoreflect.FullName) protoreflect.MessageDescriptor {
		d, err := files.FindDescriptorByName(name)
		if err != nil {
			t.Fatal(err)
		}
		return d.(protoreflect.MessageDescriptor)
	}
	if r.song == nil {
		r.station, r.song = find("radio.v1.Station"), find("radio.v1.Song")
	}
	r.modules.serve(map[string]modules.ServedType{"default/" + radioService: {
		Spec: &abi.TypeSpec{
			Name: typ, Methods: []abi.MethodSpec{{Name: "Play"}, {Name: "Listen"}},
			Protobuf: abi.Protobuf{Service: radioService, Descriptor: data, IDField: "station"},
		},
		Deployment: actor.Deployment{App: "default", Type: typ, Digest: actor.DigestOf(data)},
	}})
}

func (r *radio) ReadEvents(_ context.Context, q actor.EventQuery) (page actor.EventPage, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if q.Key == (actor.Key{App: "default", Type: "Radio", ID: "one"}) && q.After.Before(e.Position) && len(page.Events) < q.Limit {
			page.Events = append(page.Events, e)
		}
	}
	page.Trimmed = r.trimmed
	return page, nil
}

func (r *radio) NewestEvent(context.Context, actor.Key) (actor.EventPosition, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) == 0 {
		return r.trimmed, nil
	}
	return r.events[len(r.events)-1].Position, nil
}

func (r *radio) TrimEvents(context.Context, actor.Key, actor.EventsKept) error { return nil }

// publish publishes an event of station one, and returns its position.
func (r *radio) publish(name, contentType, data string) string {
	r.mu.Lock()
	at := actor.EventPosition{Version: uint64(len(r.events)) + 1}
	r.events = append(r.events, actor.Event{Position: at, Name: name, Payload: actor.Payload{ContentType: contentType, Data: []byte(data)}})
	r.mu.Unlock()
	r.feed.Published(actor.Key{App: "default", Type: "Radio", ID: "one"}, 1)
	return at.String()
}

// play publishes a song.
func (r *radio) play(title string) string {
	return r.publish("Listen", abi.ContentTypeProtobuf, string(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), title)))
}

// listening is a stream as a generated client has it.
type listening struct {
	*connect.ServerStreamForClient[dynamicpb.Message]
	t *testing.T
}

func (r *radio) listen(ctx context.Context, t *testing.T, c *http.Client, station string, headers []string, opts ...connect.ClientOption) listening {
	t.Helper()
	opts = append(opts, connect.WithResponseInitializer(func(_ connect.Spec, msg any) error {
		*msg.(*dynamicpb.Message) = *dynamicpb.NewMessage(r.song)
		return nil
	}))
	client := connect.NewClient[dynamicpb.Message, dynamicpb.Message](c, r.url+"/"+radioService+"/Listen", opts...)
	msg := dynamicpb.NewMessage(r.station)
	msg.Set(r.station.Fields().ByName("station"), protoreflect.ValueOfString(station))
	req := connect.NewRequest(msg)
	for i := 0; i < len(headers); i += 2 {
		req.Header().Add(headers[i], headers[i+1])
	}
	s, err := client.CallServerStream(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return listening{s, t}
}

// next receives a song, and returns its title and its position.
func (l listening) next() (title, position string) {
	l.t.Helper()
	if !l.Receive() {
		l.t.Fatalf("the stream ended: %v", l.Err())
	}
	fields := l.Msg().Descriptor().Fields()
	return l.Msg().Get(fields.ByName("title")).String(), l.Msg().Get(fields.ByName("greenroom_position")).String()
}

// wants receives songs.
func (l listening) wants(titles ...string) {
	l.t.Helper()
	for _, want := range titles {
		if got, at := l.next(); got != want {
			l.t.Fatalf("got %q at %s, want %q", got, at, want)
		}
	}
}

// end receives the end of the stream.
func (l listening) end() (trailer string, err error) {
	l.t.Helper()
	if l.Receive() {
		l.t.Fatalf("got %v, want the end", l.Msg())
	}
	return l.ResponseTrailer().Get(edge.HeaderPosition), l.Err()
}

// Every client of a guest's service gets the events that have the name of the rpc, in their order, with
// their positions; an event that is no message ends the stream, and the trailer has its position.
func TestGuestStreamOverEveryProtocol(t *testing.T) {
	for _, p := range protocols() {
		t.Run(p.name, func(t *testing.T) {
			r := startRadio(t, nil)
			r.play("first")
			r.publish("Other", "application/json", `{}`)
			second := r.play("second")
			l := r.listen(t.Context(), t, client(t, p.http2), "one", []string{edge.HeaderEvents, "start"}, p.opts...)
			l.wants("first")
			if title, at := l.next(); title != "second" || at != second {
				t.Errorf("got %q at %s, want it at %s", title, at, second)
			}
			if got := l.ResponseHeader().Get(edge.HeaderPosition); got != "0-0" {
				t.Errorf("it begins at %q", got)
			}
			r.play("third")
			l.wants("third")
			bad := r.publish("Listen", abi.ContentTypeProtobuf, "\x0a\x05x")
			r.play("fourth")
			trailer, err := l.end()
			wantError(t, err, connect.CodeInternal, "guest_protocol")
			if _, d := detailOf(t, err); trailer != bad || !strings.Contains(err.Error(), "the event at "+bad+" is no radio.v1.Song") || d.GetActorId() != "one" || d.GetActorType() != "Radio" || d.GetMethod() != "Listen" {
				t.Errorf("it ended at %s with %v of %v; the event is at %s", trailer, err, d, bad)
			}
			r.listen(t.Context(), t, client(t, p.http2), "one", []string{edge.HeaderEvents, trailer}, p.opts...).wants("fourth")
			if inv, called := r.host.last(); called {
				t.Errorf("a turn ran: %+v", inv)
			}
		})
	}
}

// A stream begins with what is published from then on, unless it is asked for something else.
func TestGuestStreamBegins(t *testing.T) {
	r := startRadio(t, nil)
	first := r.play("first")
	second := r.play("second")
	for _, tt := range []struct {
		name, begins string
		headers      []string
		wants        []string
	}{
		{"by default", second, nil, []string{"third"}},
		{"now", second, []string{edge.HeaderEvents, "now"}, []string{"third"}},
		{"from the start", "0-0", []string{edge.HeaderEvents, "start"}, []string{"first", "second", "third"}},
		{"after a position", first, []string{edge.HeaderEvents, first}, []string{"second", "third"}},
		{"an actor by the header", second, []string{edge.HeaderActor, "one"}, []string{"third"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := r.listen(t.Context(), t, client(t, true), "one", tt.headers)
			if got := l.ResponseHeader().Get(edge.HeaderPosition); got != tt.begins {
				t.Errorf("it begins at %q, want %q", got, tt.begins)
			}
			if h := l.ResponseHeader(); h.Get("Cache-Control") != "no-store" || h.Get("X-Accel-Buffering") != "no" {
				t.Errorf("proxies may keep it or hold it back: %v", h)
			}
			third := r.play("third")
			l.wants(tt.wants...)
			r.mu.Lock()
			r.events = slices.DeleteFunc(r.events, func(e actor.Event) bool { return e.Position.String() == third })
			r.mu.Unlock()
			r.feed.Removed(actor.Key{App: "default", Type: "Radio", ID: "one"})
		})
	}
}

func TestGuestStreamRefuses(t *testing.T) {
	r := startRadio(t, nil)
	r.mu.Lock()
	r.trimmed = actor.EventPosition{Version: 7}
	r.mu.Unlock()
	for _, opts := range [][]connect.ClientOption{nil, {connect.WithGRPC()}} {
		for _, tt := range []struct {
			name, station string
			headers       []string
			code          connect.Code
			kind          actor.Kind
			want          string
		}{
			{"a position that is none", "one", []string{edge.HeaderEvents, "soon"}, connect.CodeInvalidArgument, "invalid_argument", `Greenroom-Events is "soon"; give the position`},
			{"two positions", "one", []string{edge.HeaderEvents, "now", edge.HeaderEvents, "start"}, connect.CodeInvalidArgument, "invalid_argument", "Greenroom-Events is given more than once"},
			{"a position that is gone", "one", []string{edge.HeaderEvents, "1-0"}, connect.CodeOutOfRange, "position_gone", "events up to 7-0 were trimmed"},
			{"no actor", "", nil, connect.CodeInvalidArgument, "invalid_argument", "station is empty"},
			{"two actors", "one", []string{edge.HeaderActor, "two"}, connect.CodeInvalidArgument, "invalid_argument", `is "two", and the field station is "one"`},
			{"an ID that cannot be", "a\tb", nil, connect.CodeInvalidArgument, "invalid_argument", ""},
			{"another app", "one", []string{edge.HeaderApp, "other"}, connect.CodeUnimplemented, "path_not_found", ""},
		} {
			t.Run(tt.name, func(t *testing.T) {
				trailer, err := r.listen(t.Context(), t, client(t, true), tt.station, tt.headers, opts...).end()
				wantError(t, err, tt.code, tt.kind)
				began := tt.kind == "position_gone" // of others a client has nothing to go on from
				if !strings.Contains(err.Error(), tt.want) || (trailer != "") != began {
					t.Errorf("got %v at %q, want %s", err, trailer, tt.want)
				}
			})
		}
	}
}

// A stream that is refused before it begins has no position: a client would go on from there.
func TestRefusedGuestStream(t *testing.T) {
	r := startRadio(t, func(c *Config) { c.Feed = nil })
	for _, opts := range [][]connect.ClientOption{nil, {connect.WithGRPC()}} {
		trailer, err := r.listen(t.Context(), t, client(t, true), "one", nil, opts...).end()
		wantError(t, err, connect.CodeUnimplemented, failure.KindNotImplemented)
		if trailer != "" {
			t.Errorf("it ended at %s", trailer)
		}
	}
}

// enveloped is a message of a stream of Connect, as curl sends it.
func enveloped(message string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))) + message
}

// What asks for a stream as for a message, or the other way round, learns it, in the form that it asked in.
func TestGuestStreamForms(t *testing.T) {
	r := startRadio(t, nil)
	r.play("first")
	listen, play := r.url+"/"+radioService+"/Listen", r.url+"/"+radioService+"/Play"
	const asStream = "application/connect+json"
	for _, tt := range []struct {
		name, method, url, contentType, body string
		status                               int
		want                                 string
	}{
		{"a stream as a call", "POST", listen, "application/json", `{"station":"one"}`, 400, "use application/connect+json"},
		{"a stream as what curl sends", "POST", listen, "application/x-www-form-urlencoded", `{"station":"one"}`, 400, "use application/connect+json"},
		{"a stream by GET", "GET", listen + "?encoding=json&message=%7B%7D", "", "", 400, "use application/connect+json"},
		{"a call as a stream", "POST", play, asStream, enveloped(`{"station":"one"}`), 200, "answers with one message"},
		{"no rpc, as a stream", "POST", r.url + "/" + radioService + "/Sing", asStream, enveloped(`{}`), 200, "path_not_found"},
		{"an unknown member", "POST", listen, asStream, enveloped(`{"statoin":"one"}`), 200, "unknown field"},
		{"no message", "POST", listen, asStream, "", 200, `"code":"unimplemented"`},
		{"a message that is too large", "POST", listen, asStream, enveloped(`{"station":"one"}` + strings.Repeat(" ", 65<<10)), 200, "limit of 65536 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := do(t, client(t, false), tt.method, tt.url, tt.body, "Content-Type", tt.contentType)
			if a.StatusCode != tt.status || !strings.Contains(a.body, tt.want) {
				t.Errorf("got %s %s", a.Status, a.body)
			}
		})
	}

	if got := r.readJSON(t, "start").next(); got != "{\"title\":\"first\",\"greenroomPosition\":\"1-0\"}" {
		t.Errorf("got %s", got)
	}
}

// jsonStream is a stream as curl reads it.
type jsonStream struct {
	t    *testing.T
	body io.Reader
}

// readJSON opens a stream that begins at a position.
func (r *radio) readJSON(t *testing.T, from string) jsonStream {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/"+radioService+"/Listen", strings.NewReader(enveloped(`{"station":"one"}`)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/connect+json")
	req.Header.Set(edge.HeaderEvents, from)
	res, err := client(t, false).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return jsonStream{t, res.Body}
}

// next reads a message, without the spaces that protojson puts into some builds' texts.
func (s jsonStream) next() string {
	s.t.Helper()
	prefix := make([]byte, 5)
	if _, err := io.ReadFull(s.body, prefix); err != nil {
		s.t.Fatal(err)
	}
	text := make([]byte, binary.BigEndian.Uint32(prefix[1:]))
	if _, err := io.ReadFull(s.body, text); err != nil {
		s.t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), " ", "")
}

// An event of another content type is no message, and what reading the request took is given back when
// the stream begins.
func TestGuestStreamOfJSONEvents(t *testing.T) {
	r := startRadio(t, nil)
	l := r.listen(t.Context(), t, client(t, true), "one", nil, connect.WithProtoJSON())
	_ = l.ResponseHeader() // it has begun
	if used := r.edge.Requests.Bodies.Used(); used != 0 {
		t.Errorf("%d bytes are counted for an open stream", used)
	}
	at := r.publish("Listen", "application/json", "")
	if title, _ := l.next(); title != "" { // nothing is an empty message
		t.Errorf("got %q at %s", title, at)
	}
	at = r.publish("Listen", "application/json", "\x0a\x01x") // which is a message otherwise
	trailer, err := l.end()
	wantError(t, err, connect.CodeInternal, "guest_protocol")
	if trailer != at || !strings.Contains(err.Error(), "its content type is application/json") {
		t.Errorf("it ended at %s with %v", trailer, err)
	}
}

// The role read is enough for a stream, and a token of another app is refused.
func TestGuestStreamTokens(t *testing.T) {
	r := startRadio(t, func(c *Config) {
		c.Tokens = []edge.Token{
			{Name: "reader", Secret: "secret-of-the-reader", Role: edge.RoleRead},
			{Name: "other", Secret: "secret-of-another-app", Role: edge.RoleAdmin, App: "other"},
		}
	})
	r.play("first")
	from := []string{edge.HeaderEvents, "start"}
	r.listen(t.Context(), t, client(t, true), "one", append(from, "Authorization", "Bearer secret-of-the-reader")).wants("first")
	_, err := r.listen(t.Context(), t, client(t, true), "one", from).end()
	wantError(t, err, connect.CodeUnauthenticated, "unauthenticated")
	_, err = r.listen(t.Context(), t, client(t, true), "one", append(from, "Authorization", "Bearer secret-of-another-app")).end()
	wantError(t, err, connect.CodePermissionDenied, "permission_denied")
}

// A stream goes on with another deployment that has it, whose messages are those of JSON then, and
// ends with one that does not.
func TestGuestStreamMeetsDeployments(t *testing.T) {
	json := connect.WithProtoJSON()
	for _, tt := range []struct {
		name   string
		deploy func(*radio)
	}{
		{"none", func(r *radio) { r.modules.serve(nil) }},
		{"the rpc is gone", func(r *radio) { r.deploy(t, "Radio", `"Listen"`, `"Hear"`) }},
		{"the rpc is not streaming", func(r *radio) { r.deploy(t, "Radio", `, "serverStreaming": true`, "") }},
		{"another type", func(r *radio) { r.deploy(t, "Television") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := startRadio(t, nil)
			l := r.listen(t.Context(), t, client(t, true), "one", []string{edge.HeaderEvents, "start"}, json)
			first := r.play("first")
			l.wants("first")
			tt.deploy(r)
			r.play("second")
			trailer, err := l.end()
			wantError(t, err, connect.CodeUnimplemented, "path_not_found")
			if trailer != first {
				t.Errorf("it ended at %s, want %s", trailer, first)
			}
		})
	}

	r := startRadio(t, nil)
	r.play("first")
	l := r.readJSON(t, "start")
	if got := l.next(); !strings.Contains(got, `"title":"first"`) {
		t.Errorf("got %s", got)
	}
	r.deploy(t, "Radio", `"name": "title", "jsonName": "title"`, `"name": "name", "jsonName": "name"`)
	r.play("second")
	if got := l.next(); !strings.Contains(got, `"name":"second"`) {
		t.Errorf("after another deployment: %s", got)
	}
}

// A stream that is quiet for long stays open, over both versions of HTTP; one whose rpc is gone ends
// within half a minute, also without an event.
func TestQuietGuestStream(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var r *radio
			f, network := startInBubble(t, func(c *Config) { r = withRadio(c) })
			r.fixture = f
			r.deploy(t, "Radio")
			l := r.listen(t.Context(), t, network.client(t, http2), "one", nil)
			_ = l.ResponseHeader()
			<-time.After(time.Hour)
			first := r.play("first")
			l.wants("first")
			r.modules.serve(nil)
			began := time.Now()
			trailer, err := l.end()
			wantError(t, err, connect.CodeUnimplemented, "path_not_found")
			if took := time.Since(began); took > 30*time.Second || trailer != first {
				t.Errorf("it ended after %v at %s, want %s", took, trailer, first)
			}
		})
	}
}

// A server that stops ends its streams without an error, with the position.
func TestGuestStreamAtAStop(t *testing.T) {
	r := startRadio(t, nil)
	l := r.listen(t.Context(), t, client(t, true), "one", []string{edge.HeaderEvents, "start"})
	r.play("first")
	last := r.publish("Other", "", "")
	l.wants("first")
	stopped := make(chan error, 1)
	go func() { stopped <- r.Stop(context.Background()) }()
	trailer, err := l.end()
	if err != nil || trailer != "1-0" && trailer != last {
		t.Errorf("it ended at %s with %v", trailer, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	counted := httptest.NewRecorder() // apart from calls, whose times those of streams would hide
	r.edge.Metrics.Handler().ServeHTTP(counted, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if !strings.Contains(counted.Body.String(), `greenroom_http_requests_total{route="guest stream",status="200"} 1`) {
		t.Error("no stream is counted")
	}
	if log := r.log.String(); !strings.Contains(log, `route="guest stream"`) {
		t.Errorf("the log names no stream: %s", log)
	}
}

// JSON of events counts for the memory that it takes only while a message is sent, and a client that is
// gone leaves nothing.
func TestGuestStreamGivesBack(t *testing.T) {
	r := startRadio(t, func(c *Config) { c.MaxRequestsBytes = 1 << 20 })
	ctx, cancel := context.WithCancel(t.Context())
	l := r.listen(ctx, t, client(t, true), "one", []string{edge.HeaderEvents, "start"}, connect.WithProtoJSON())
	title := strings.Repeat("x", 100)
	for range 4 << 10 { // which takes several MiB together
		r.play(title)
	}
	for range 4 << 10 {
		l.wants(title)
	}
	cancel()
	if _, err := l.end(); connect.CodeOf(err) != connect.CodeCanceled && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.stopsEmpty(t)
}

// stopsEmpty stops the server, which then counts nothing for requests.
func (r *radio) stopsEmpty(t *testing.T) {
	t.Helper()
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if used := r.edge.Requests.Bodies.Used(); used != 0 {
		t.Errorf("%d bytes are counted", used)
	}
}

// An event whose JSON has no room in memory ends the stream before it; its binary form is sent.
func TestGuestStreamWeighsJSON(t *testing.T) {
	r := startRadio(t, func(c *Config) { c.MaxRequestsBytes = 128 << 10 })
	first := r.play("first")
	large := strings.Repeat("x", 60<<10) // which may become six times as long in JSON
	r.play(large)
	from := []string{edge.HeaderEvents, "start"}
	l := r.listen(t.Context(), t, client(t, true), "one", from, connect.WithProtoJSON())
	l.wants("first")
	trailer, err := l.end()
	wantError(t, err, connect.CodeResourceExhausted, "host_full")
	if trailer != first {
		t.Errorf("it ended at %s, want %s", trailer, first)
	}
	r.listen(t.Context(), t, client(t, true), "one", from).wants("first", large)
}

// A client that does not read delays no other one, and gets all events when it does.
func TestSlowGuestStream(t *testing.T) {
	r := startRadio(t, nil)
	slow := r.listen(t.Context(), t, client(t, true), "one", []string{edge.HeaderEvents, "start"})
	quick := r.listen(t.Context(), t, client(t, true), "one", []string{edge.HeaderEvents, "start"})
	const n = 200 // many times what a connection buffers
	large := strings.Repeat("x", 60<<10)
	for range n {
		r.play(large)
	}
	for _, l := range []listening{quick, slow} {
		for range n {
			l.wants(large)
		}
	}
}

// Pages of other origins that may call may say where a stream begins, and read where it is.
func TestGuestStreamOfAPage(t *testing.T) {
	const origin = "https://app.example"
	r := startRadio(t, func(c *Config) { c.AllowedOrigins = []string{origin} })
	listen := r.url + "/" + radioService + "/Listen"
	a := do(t, client(t, false), "OPTIONS", listen, "", "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type,greenroom-events")
	if !strings.Contains(strings.ToLower(a.Header.Get("Access-Control-Allow-Headers")), "greenroom-events") {
		t.Errorf("preflight: %s %v", a.Status, a.Header)
	}
	a = do(t, client(t, false), "POST", listen, "{}", "Origin", origin, "Content-Type", "application/json")
	if !strings.Contains(a.Header.Get("Access-Control-Expose-Headers"), edge.HeaderPosition) {
		t.Errorf("%s %v", a.Status, a.Header)
	}
}

// A method that has the name of a streaming rpc is an ordinary one: its JSON stays JSON.
func TestMethodWithTheNameOfAStream(t *testing.T) {
	r := startRadio(t, nil)
	a := do(t, client(t, false), "POST", r.url+"/v2.0/actors/default/Radio/one/method/Listen", `{"free":1}`)
	if inv, _ := r.host.last(); a.StatusCode != http.StatusOK || string(inv.Payload.Data) != `{"free":1}` {
		t.Errorf("got %s, and the host got %q", a.Status, inv.Payload.Data)
	}
}
