package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
)

type uploadStream = *connect.BidiStream[greenroomv1.UploadRequest, greenroomv1.UploadResponse]

// uploads is a server that does with uploads what a test says.
type uploads struct {
	greenroomv1connect.UnimplementedModuleServiceHandler
	handle func(uploadStream) error
}

func (u uploads) Upload(_ context.Context, s uploadStream) error { return u.handle(s) }

// recorded is progress as it was reported.
type recorded struct {
	bytes  []int64
	stages []greenroomv1.UploadProgress_Stage
}

func (r *recorded) sent(n int64)                             { r.bytes = append(r.bytes, n) }
func (r *recorded) stage(s greenroomv1.UploadProgress_Stage) { r.stages = append(r.stages, s) }
func (r *recorded) end()                                     {}

func TestSendModule(t *testing.T) {
	wasm := make([]byte, 2*uploadChunk+1)
	// receive takes the whole upload, as a server must before it can judge.
	receive := func(s uploadStream) (size int) {
		for {
			msg, err := s.Receive()
			if err != nil {
				return size
			}
			size += len(msg.GetChunk())
		}
	}
	stage := func(s greenroomv1.UploadProgress_Stage) *greenroomv1.UploadResponse {
		return &greenroomv1.UploadResponse{Event: &greenroomv1.UploadResponse_Progress{Progress: &greenroomv1.UploadProgress{Stage: s}}}
	}
	for _, tc := range []struct {
		name   string
		handle func(uploadStream) error
		err    string
		stages []greenroomv1.UploadProgress_Stage
	}{
		{
			name: "all is well",
			handle: func(s uploadStream) error {
				size := receive(s)
				return errors.Join(
					s.Send(stage(greenroomv1.UploadProgress_STAGE_VALIDATING)),
					s.Send(stage(greenroomv1.UploadProgress_STAGE_STORING)),
					s.Send(&greenroomv1.UploadResponse{Event: &greenroomv1.UploadResponse_Module{Module: &greenroomv1.Module{Digest: "d", Size: int64(size)}}}))
			},
			stages: []greenroomv1.UploadProgress_Stage{greenroomv1.UploadProgress_STAGE_VALIDATING, greenroomv1.UploadProgress_STAGE_STORING},
		},
		{
			name: "refused before all was sent",
			handle: func(uploadStream) error {
				return connect.NewError(connect.CodeInvalidArgument, errors.New("too large"))
			},
			err: "too large",
		},
		{
			name:   "no answer",
			handle: func(s uploadStream) error { receive(s); return nil },
			err:    "the server ended the upload without an answer",
		},
		{
			name: "the connection breaks",
			handle: func(s uploadStream) error {
				receive(s)
				panic(http.ErrAbortHandler)
			},
			err: "stream",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, handler := greenroomv1connect.NewModuleServiceHandler(uploads{handle: tc.handle})
			srv := httptest.NewUnstartedServer(handler)
			srv.Config.Protocols = new(http.Protocols)
			srv.Config.Protocols.SetUnencryptedHTTP2(true)
			srv.Start()
			defer srv.Close()
			c := &cli{console: console{getenv: noEnv}, endpoint: endpoint{server: srv.URL}}
			a, err := c.api()
			if err != nil {
				t.Fatal(err)
			}
			var p recorded
			m, err := sendModule(t.Context(), a, "default", wasm, &p)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if m.Size != int64(len(wasm)) {
				t.Errorf("the server got %d of %d bytes", m.Size, len(wasm))
			}
			if diff := cmp.Diff([]int64{uploadChunk, 2 * uploadChunk, 2*uploadChunk + 1}, p.bytes); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.stages, p.stages); diff != "" {
				t.Error(diff)
			}
		})
	}
}
