package messages

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/usage"
	"github.com/greenroom-run/greenroom/internal/hostile"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/edge"
)

// publisherRole is a server that is subscribed to. It says its URL, and at its end how many bytes
// its subscribers have taken.
const publisherRole = "publisher"

// publisherSpec says which server.
type publisherSpec struct {
	// Dir is the folder of Greenroom's store; empty: not Greenroom, but an empty handler.
	Dir  string
	Wasm string // path of the module of bench/tellguest
}

// publisher plays [publisherRole].
func publisher(ctx context.Context, raw json.RawMessage, say func(any) error) error {
	var s publisherSpec
	must.Check(json.Unmarshal(raw, &s))
	serve := serveNothing
	if s.Dir != "" {
		serve = s.serve
	}
	url, stop := serve(ctx)
	defer must.Close(func() error { return stop(context.WithoutCancel(ctx)) })
	before := held()
	must.Check(say(url))
	<-ctx.Done()
	return say(held() - before)
}

// held is how many bytes of Go's heap and of stacks this process uses, after a collection.
func held() int64 {
	m := usage.Memory()
	return int64(m.HeapAlloc + m.StackInuse) //nolint:gosec // of a process
}

// serve starts a whole Greenroom and deploys the guest.
func (s publisherSpec) serve(ctx context.Context) (url string, stop func(context.Context) error) {
	log := slog.New(slog.DiscardHandler)
	n := must.Get(node.New(node.Config{
		DataDir: s.Dir, Logger: log,
		Server: server.Config{Config: edge.Config{Addr: loopback, Logger: log}},
	}))
	must.Check(n.Start(context.WithoutCancel(ctx)))
	url = "http://" + n.Addr().String()
	must.Check(hostile.App{URL: url, Name: "default"}.Deploy(ctx, must.Get(os.ReadFile(s.Wasm))))
	return url, n.Stop
}

// streamsOfConnection are on one connection.
const streamsOfConnection = 200

// loopback is an address with a port that is free.
const loopback = "127.0.0.1:0"

// silent has an empty handler of Subscribe: it says that the subscription has begun.
type silent struct {
	greenroomv1connect.UnimplementedActorServiceHandler
}

// Subscribe implements ActorService.
func (silent) Subscribe(ctx context.Context, _ *connect.Request[greenroomv1.SubscribeRequest], stream *connect.ServerStream[greenroomv1.SubscribeResponse]) error {
	if err := stream.Send(&greenroomv1.SubscribeResponse{}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// serveNothing starts a server of connect-go and net/http with the empty handler, and no more.
func serveNothing(ctx context.Context) (url string, stop func(context.Context) error) {
	mux := http.NewServeMux()
	mux.Handle(greenroomv1connect.NewActorServiceHandler(silent{}))
	listener := must.Get((&net.ListenConfig{}).Listen(ctx, "tcp", loopback))
	s := &http.Server{Handler: mux, Protocols: unencrypted(), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streamsOfConnection}} //nolint:gosec // of a benchmark
	go func() { _ = s.Serve(listener) }()
	return "http://" + listener.Addr().String(), func(context.Context) error { return s.Close() }
}

// unencrypted is HTTP/2 without TLS.
func unencrypted() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}
