package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/failure"
)

func moduleClient(tb testing.TB, f *fixture) greenroomv1connect.ModuleServiceClient {
	tb.Helper()
	return greenroomv1connect.NewModuleServiceClient(client(tb, true), f.url, connect.WithGRPC())
}

func header(size int64, digest actor.Digest) *greenroomv1.UploadRequest {
	return &greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Header{Header: &greenroomv1.UploadHeader{Size: size, Digest: string(digest)}}}
}

func chunk(data []byte) *greenroomv1.UploadRequest {
	return &greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Chunk{Chunk: data}}
}

// send uploads messages and returns the events until the module or an error.
func send(tb testing.TB, c greenroomv1connect.ModuleServiceClient, msgs ...*greenroomv1.UploadRequest) ([]*greenroomv1.UploadResponse, error) {
	tb.Helper()
	stream := c.Upload(tb.Context())
	defer func() { _ = stream.CloseResponse() }()
	if len(msgs) == 0 {
		_ = stream.Send(nil) // opens the stream
	}
	for _, m := range msgs {
		if err := stream.Send(m); err != nil {
			break // the answer says why
		}
	}
	if err := stream.CloseRequest(); err != nil {
		tb.Fatal(err)
	}
	var events []*greenroomv1.UploadResponse
	for {
		ev, err := stream.Receive()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return events, err
		}
		events = append(events, ev)
	}
}

// wasmOf is a module of n bytes.
func wasmOf(n int) []byte {
	wasm := []byte(wasmMagic)
	for len(wasm) < n {
		wasm = append(wasm, byte(len(wasm)))
	}
	return wasm[:n]
}

func TestUpload(t *testing.T) {
	f := start(t, nil)
	for _, opts := range [][]connect.ClientOption{nil, {connect.WithGRPC()}, {connect.WithGRPCWeb()}, {connect.WithProtoJSON()}, {connect.WithSendGzip()}} {
		c := greenroomv1connect.NewModuleServiceClient(client(t, true), f.url, opts...)
		wasm := wasmOf(3<<20 + 7)
		msgs := []*greenroomv1.UploadRequest{header(int64(len(wasm)), actor.DigestOf(wasm))}
		for rest := wasm; len(rest) > 0; {
			n := min(len(rest), 1<<20)
			msgs = append(msgs, chunk(rest[:n]), chunk(nil))
			rest = rest[n:]
		}
		events, err := send(t, c, msgs...)
		if err != nil {
			t.Fatal(err)
		}
		var stages []string
		for _, ev := range events {
			if p := ev.GetProgress(); p != nil {
				stages = append(stages, fmt.Sprintf("%s %d", strings.TrimPrefix(p.GetStage().String(), "STAGE_"), p.GetReceived()))
			}
		}
		want := "RECEIVING 1048576,RECEIVING 2097152,RECEIVING 3145728,RECEIVING 3145735,VALIDATING 3145735,STORING 3145735"
		if got := strings.Join(stages, ","); got != want {
			t.Errorf("progress %s", got)
		}
		m := events[len(events)-1].GetModule()
		if m.GetDigest() != string(actor.DigestOf(wasm)) || m.GetSize() != int64(len(wasm)) || m.GetApp() != "default" || m.GetSdk() != "test 1" {
			t.Errorf("module %v", m)
		}
		if types := m.GetTypes(); len(types) != 1 || types[0].GetPlacement() != "ring" || !types[0].GetMethods()[1].GetReadOnly() {
			t.Errorf("types %v", m.GetTypes())
		}
		if !bytes.Equal(f.modules.modules[actor.DigestOf(wasm)], wasm) {
			t.Error("other bytes were stored")
		}
	}
}

func TestUploadOfTinyChunks(t *testing.T) {
	f := start(t, nil)
	wasm := wasmOf(3000)
	msgs := []*greenroomv1.UploadRequest{header(0, "")}
	for i := range wasm {
		msgs = append(msgs, chunk(wasm[i:i+1]))
	}
	if _, err := send(t, moduleClient(t, f), msgs...); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(f.modules.modules[actor.DigestOf(wasm)], wasm) {
		t.Error("other bytes were stored")
	}
}

func TestUploadRefuses(t *testing.T) {
	const limit = 2 << 20
	f := start(t, func(c *Config) { c.MaxModuleBytes = limit })
	c := moduleClient(t, f)
	wasm := wasmOf(100)
	var large []*greenroomv1.UploadRequest
	for range 5 {
		large = append(large, chunk(wasmOf(1<<20)))
	}
	tests := []struct {
		name string
		msgs []*greenroomv1.UploadRequest
		kind actor.Kind
		text string
	}{
		{"an empty message", []*greenroomv1.UploadRequest{{}}, "invalid_argument", ""},
		{"no header", []*greenroomv1.UploadRequest{chunk(wasm)}, "invalid_argument", "header first"},
		{"two headers", []*greenroomv1.UploadRequest{header(0, ""), header(0, "")}, "invalid_argument", "second header"},
		{"a bad digest", []*greenroomv1.UploadRequest{header(0, "xyz")}, "invalid_argument", "digest"},
		{"another digest", []*greenroomv1.UploadRequest{header(0, actor.DigestOf(nil)), chunk(wasm)}, "invalid_argument", "has the digest"},
		{"a negative size", []*greenroomv1.UploadRequest{header(-1, "")}, "invalid_argument", "size"},
		{"less than said", []*greenroomv1.UploadRequest{header(101, ""), chunk(wasm)}, "invalid_argument", "has 100 bytes"},
		{"more than said", []*greenroomv1.UploadRequest{header(99, ""), chunk(wasm)}, "invalid_argument", "more than the 99"},
		{"a large chunk", []*greenroomv1.UploadRequest{header(0, ""), chunk(wasmOf(1<<20 + 1))}, "invalid_argument", "chunk"},
		{"a large size", []*greenroomv1.UploadRequest{header(limit+1, "")}, "module_too_large", "2097152"},
		{"too much", append([]*greenroomv1.UploadRequest{header(0, "")}, large[:3]...), "module_too_large", "2097152"},
		{"far too much", append([]*greenroomv1.UploadRequest{header(0, "")}, large...), "module_too_large", "2097152"},
		{"nothing", []*greenroomv1.UploadRequest{header(0, "")}, "invalid_module", "2 fault(s)"},
		{"no Wasm", []*greenroomv1.UploadRequest{header(0, ""), chunk([]byte("MZ"))}, "invalid_module", "2 fault(s)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := send(t, c, tt.msgs...)
			wantError(t, err, connect.CodeInvalidArgument, tt.kind)
			if !strings.Contains(err.Error(), tt.text) {
				t.Errorf("the error does not say %q: %v", tt.text, err)
			}
			if _, d := detailOf(t, err); tt.kind == failure.KindInvalidModule && (len(d.GetFaults()) != 2 || d.GetFaults()[0].GetCode() != "not_wasm") {
				t.Errorf("faults %v", d.GetFaults())
			}
		})
	}
	if len(f.modules.modules) != 0 {
		t.Error("something was stored")
	}
}

// TestUploadsWaitOnDisk: what has arrived whole waits without memory, behind what
// others have under way, and goes when its caller does.
func TestUploadsWaitOnDisk(t *testing.T) {
	f := start(t, nil)
	f.modules.uploading = make(chan struct{})
	c := moduleClient(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting []*connect.BidiStreamForClient[greenroomv1.UploadRequest, greenroomv1.UploadResponse]
	for range 8 {
		stream := c.Upload(ctx)
		waiting = append(waiting, stream)
		for _, m := range []*greenroomv1.UploadRequest{header(0, ""), chunk(wasmOf(1<<20 - 1))} {
			if err := stream.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		if err := stream.CloseRequest(); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Receive(); err != nil { // it is there
			t.Fatal(err)
		}
	}
	if n := f.edge.Requests.Uploads.Used(); n != 0 {
		t.Errorf("they have %d bytes in memory", n)
	}
	cancel()
	for _, stream := range waiting {
		for err := error(nil); err == nil; {
			_, err = stream.Receive()
			if err != nil && connect.CodeOf(err) != connect.CodeCanceled {
				t.Error(err)
			}
		}
	}
	close(f.modules.uploading)
	if _, err := send(t, c, header(0, ""), chunk(wasmOf(20))); err != nil {
		t.Errorf("after them: %v", err)
	}
}

func TestModuleLife(t *testing.T) {
	f := start(t, nil)
	c := moduleClient(t, f)
	ctx := t.Context()
	wasm, old := wasmOf(2*256<<10+5), wasmOf(40)
	for _, w := range [][]byte{old, wasm} {
		if _, err := send(t, c, header(0, ""), chunk(w)); err != nil {
			t.Fatal(err)
		}
	}
	digest := string(actor.DigestOf(wasm))

	download, err := c.Download(ctx, connect.NewRequest(&greenroomv1.DownloadRequest{Digest: digest[:8]}))
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	size := int64(0)
	for download.Receive() {
		size += download.Msg().GetSize()
		got = append(got, download.Msg().GetChunk()...)
	}
	if err := errors.Join(download.Err(), download.Close()); err != nil || !bytes.Equal(got, wasm) || size != int64(len(wasm)) {
		t.Errorf("downloaded %d bytes, said %d, %v", len(got), size, err)
	}

	for _, d := range []string{string(actor.DigestOf(old)), digest} {
		res, err := c.Deploy(ctx, connect.NewRequest(&greenroomv1.DeployRequest{Digest: d}))
		if err != nil || len(res.Msg.GetDeployments()) != 1 || len(res.Msg.GetWarnings()) != 1 {
			t.Fatalf("deploy: %v, %v", res, err)
		}
	}
	mod, err := c.GetModule(ctx, connect.NewRequest(&greenroomv1.GetModuleRequest{Digest: digest}))
	if err != nil || len(mod.Msg.GetServing()) != 1 || mod.Msg.GetServing()[0].GetGeneration() != 2 {
		t.Errorf("module: %v, %v", mod, err)
	}
	types, err := c.ListTypes(ctx, connect.NewRequest(&greenroomv1.ListTypesRequest{}))
	if err != nil || len(types.Msg.GetTypes()) != 1 || types.Msg.GetTypes()[0].GetType().GetName() != "Counter" {
		t.Errorf("types: %v, %v", types, err)
	}
	_, err = c.DeleteModule(ctx, connect.NewRequest(&greenroomv1.DeleteModuleRequest{Digest: digest}))
	wantError(t, err, connect.CodeFailedPrecondition, "module_in_use")
	_, err = c.Rollback(ctx, connect.NewRequest(&greenroomv1.RollbackRequest{Type: "Counter", Generation: 9}))
	wantError(t, err, connect.CodeNotFound, "generation_not_found")
	back, err := c.Rollback(ctx, connect.NewRequest(&greenroomv1.RollbackRequest{Type: "Counter", Generation: 1}))
	if err != nil || back.Msg.GetDeployment().GetRolledBackFrom() != 2 {
		t.Errorf("rollback: %v, %v", back, err)
	}

	var generations []uint64
	req := &greenroomv1.HistoryRequest{Type: "Counter", PageSize: 2}
	for {
		page, err := c.History(ctx, connect.NewRequest(req))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range page.Msg.GetDeployments() {
			generations = append(generations, d.GetGeneration())
		}
		if req.PageToken = page.Msg.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if fmt.Sprint(generations) != "[3 2 1]" {
		t.Errorf("history %v", generations)
	}

	out, err := c.Undeploy(ctx, connect.NewRequest(&greenroomv1.UndeployRequest{Types: []string{"Counter"}, Message: "moved"}))
	if err != nil || len(out.Msg.GetDeployments()) != 1 || !out.Msg.GetDeployments()[0].GetUndeployed() || out.Msg.GetDeployments()[0].GetMessage() != "moved" {
		t.Errorf("undeploy: %v, %v", out, err)
	}
	last, err := c.History(ctx, connect.NewRequest(&greenroomv1.HistoryRequest{Type: "Counter", PageSize: 1}))
	if err != nil || !last.Msg.GetDeployments()[0].GetUndeployed() || last.Msg.GetDeployments()[0].GetModuleDeleted() {
		t.Errorf("history after it: %v, %v", last, err)
	}
	_, err = c.Undeploy(ctx, connect.NewRequest(&greenroomv1.UndeployRequest{}))
	wantError(t, err, connect.CodeInvalidArgument, "invalid_argument")

	var apps []string
	page := &greenroomv1.ListAppsRequest{PageSize: 2}
	for {
		res, err := c.ListApps(ctx, connect.NewRequest(page))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range res.Msg.GetApps() {
			apps = append(apps, fmt.Sprint(a.GetName(), a.GetTypes(), a.GetModules(), a.GetDeployedAt() == nil))
		}
		if page.PageToken = res.Msg.GetNextPageToken(); page.PageToken == "" {
			break
		}
	}
	if fmt.Sprint(apps) != "[a1 1 true b2 2 true c3 3 true]" {
		t.Errorf("apps %v", apps)
	}

	var digests []string
	list := &greenroomv1.ListModulesRequest{PageSize: 1}
	for {
		page, err := c.ListModules(ctx, connect.NewRequest(list))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Msg.GetModules() {
			digests = append(digests, m.GetDigest())
		}
		if list.PageToken = page.Msg.GetNextPageToken(); list.PageToken == "" {
			break
		}
	}
	if len(digests) != 2 || digests[0] >= digests[1] {
		t.Errorf("modules %v", digests)
	}
	if _, err := c.DeleteModule(ctx, connect.NewRequest(&greenroomv1.DeleteModuleRequest{Digest: digest[:6]})); err != nil {
		t.Error(err)
	}
	_, err = c.GetModule(ctx, connect.NewRequest(&greenroomv1.GetModuleRequest{Digest: digest}))
	wantError(t, err, connect.CodeNotFound, "module_not_found")
	_, err = c.GetModule(ctx, connect.NewRequest(&greenroomv1.GetModuleRequest{Digest: "abc"}))
	wantError(t, err, connect.CodeInvalidArgument, "invalid_argument")
	download, err = c.Download(ctx, connect.NewRequest(&greenroomv1.DownloadRequest{Digest: digest}))
	if err == nil {
		download.Receive()
		err = errors.Join(download.Err(), download.Close())
	}
	var wire *connect.Error
	if !errors.As(err, &wire) || wire.Code() != connect.CodeNotFound {
		t.Errorf("download of what is gone: %v", err)
	}
}

// TestIdleUploadsBlockNobody: the place that a module is compiled in is for those
// that are there.
func TestIdleUploadsBlockNobody(t *testing.T) {
	f := start(t, nil)
	c := moduleClient(t, f)
	for range 8 {
		idle := c.Upload(t.Context())
		defer func() { _ = idle.CloseRequest(); _ = idle.CloseResponse() }()
		for _, m := range []*greenroomv1.UploadRequest{header(0, ""), chunk(wasmOf(1 << 20))} {
			if err := idle.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := idle.Receive(); err != nil { // it is on its way
			t.Fatal(err)
		}
	}
	if _, err := send(t, c, header(0, ""), chunk(wasmOf(10))); err != nil {
		t.Error(err)
	}
}

// TestUploadsShareMemory: what has come of their messages is bounded.
func TestUploadsShareMemory(t *testing.T) {
	f := start(t, func(c *Config) { c.Bounds.UploadMessages = 1 << 20 })
	c := moduleClient(t, f)
	if _, err := send(t, c, header(0, ""), chunk(wasmOf(1<<19)), chunk(wasmOf(1<<19)), chunk(wasmOf(1<<19))); err != nil {
		t.Errorf("one message after the other: %v", err)
	}
	// In one message, which is none before it is whole.
	_, err := send(t, c, header(0, ""), chunk(wasmOf(2<<20)))
	wantError(t, err, connect.CodeResourceExhausted, actor.ErrHostFull.Kind())
	await(f.edge.Requests.Uploads.Used, func(n int64) bool { return n == 0 })
}

// TestUploadsHaveADeadline: for all of a module, however busily it comes.
func TestUploadsHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, net := startInBubble(t, func(c *Config) { c.Bounds.BodyTimeout, c.Bounds.UploadTimeout = quick, 5*quick })
		c := greenroomv1connect.NewModuleServiceClient(net.client(t, true), f.url, connect.WithGRPC())
		stream := c.Upload(t.Context())
		if err := stream.Send(header(0, "")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var sending sync.WaitGroup
		sending.Go(func() {
			for stream.Send(chunk([]byte{1})) == nil {
				<-time.After(quick / 2)
			}
		})
		_, err := stream.Receive()
		took := time.Since(began)
		sending.Wait()
		wantError(t, err, connect.CodeDeadlineExceeded, failure.KindBodyTimeout)
		if took != 5*quick || !strings.Contains(err.Error(), (5*quick).String()) {
			t.Errorf("it ended after %v: %v", took, err)
		}
	})
}
