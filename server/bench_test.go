package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/rpc"
)

// bareService is ActorService.Invoke with nothing around it: what Connect itself
// costs.
type bareService struct {
	greenroomv1connect.UnimplementedActorServiceHandler
}

func (bareService) Invoke(_ context.Context, req *connect.Request[greenroomv1.InvokeRequest]) (*connect.Response[greenroomv1.InvokeResponse], error) {
	return connect.NewResponse(&greenroomv1.InvokeResponse{Payload: req.Msg.GetPayload()}), nil
}

// discard is a ResponseWriter without a connection.
type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
func (d discard) reset()                    { clear(d.header) }
func (discard) Flush()                      {}

// BenchmarkInvoke compares the whole server with bare Connect, both without a
// network, and prints the ratio of their times.
func BenchmarkInvoke(b *testing.B) {
	_, bare := greenroomv1connect.NewActorServiceHandler(bareService{})
	echo := &fakeHost{}
	s, err := New(Config{Config: edge.Config{Logger: slog.New(slog.DiscardHandler)}, Backends: rpc.Backends{Host: echoHost{echo}, Modules: newFakeModules(), Actors: fakeLister(0)}})
	if err != nil {
		b.Fatal(err)
	}
	const message = `{"actor":{"app":"default","type":"Counter","id":"a"},"method":"Add","payload":"eyJhbW91bnQiOjF9"}`
	perOp := make(map[string]float64)
	for _, h := range []struct {
		name string
		http.Handler
	}{{"bare", bare}, {"server", s}} {
		b.Run(h.name, func(b *testing.B) {
			w := discard{make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				req, err := http.NewRequest(http.MethodPost, "http://localhost"+greenroomv1connect.ActorServiceInvokeProcedure, strings.NewReader(message))
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				w.reset()
				h.ServeHTTP(w, req)
			}
			perOp[h.name] = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			if perOp["bare"] > 0 && h.name == "server" {
				b.ReportMetric(perOp["server"]/perOp["bare"], "x-bare")
			}
		})
	}
}

// BenchmarkInvokeOverNetwork is the same with real connections on loopback and
// Protobuf messages, many calls at once.
func BenchmarkInvokeOverNetwork(b *testing.B) {
	_, bare := greenroomv1connect.NewActorServiceHandler(bareService{})
	s, err := New(Config{Config: edge.Config{Logger: slog.New(slog.DiscardHandler)}, Backends: rpc.Backends{Host: echoHost{}, Modules: newFakeModules(), Actors: fakeLister(0)}})
	if err != nil {
		b.Fatal(err)
	}
	for _, http2 := range []bool{false, true} {
		perOp := make(map[string]float64)
		for _, h := range []struct {
			name string
			http.Handler
		}{{"bare", bare}, {"server", s}} {
			b.Run(fmt.Sprintf("http2=%v/%s", http2, h.name), func(b *testing.B) {
				hs := s.listeners.NewHTTPServer(b.Context(), s)
				hs.Handler = h
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				done := make(chan error, 1)
				go func() { done <- hs.Serve(l) }()
				c := greenroomv1connect.NewActorServiceClient(client(b, http2), "http://"+l.Addr().String())
				req := &greenroomv1.InvokeRequest{Actor: &greenroomv1.ActorKey{App: "default", Type: "Counter", Id: "a"}, Method: "Add", Payload: []byte(`{"amount":1}`)}
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := c.Invoke(b.Context(), connect.NewRequest(req)); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.StopTimer()
				perOp[h.name] = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
				if perOp["bare"] > 0 && h.name == "server" {
					b.ReportMetric(perOp["server"]/perOp["bare"], "x-bare")
				}
				_ = hs.Close()
				<-done
			})
		}
	}
}

// echoHost records nothing.
type echoHost struct{ *fakeHost }

func (echoHost) Invoke(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
	return actor.Reply{Payload: inv.Payload, Version: 1}, nil
}

func (h echoHost) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	to.Answer(h.Invoke(ctx, inv))
	return nil
}
