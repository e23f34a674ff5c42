package server

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/modules"
)

const (
	// progressEvery is how many bytes lie between two reports of what arrived.
	progressEvery = 1 << 20
	// uploadBlock is the least that memory for an upload grows by.
	uploadBlock = 256 << 10
	// claimed bounds how far memory is allocated ahead of an upload whose header says its
	// size: to so many times what has arrived. The upload is then in memory once, in one piece.
	claimed = 8
	// downloadChunk is small enough to keep memory and head-of-line waiting low.
	downloadChunk = 256 << 10
)

// Upload implements ModuleService. Nothing is stored before the whole module has
// arrived, is what the header says, and is valid.
func (m *moduleService) Upload(ctx context.Context, stream *connect.BidiStream[greenroomv1.UploadRequest, greenroomv1.UploadResponse]) error {
	if err := m.uploads.enter(); err != nil {
		return err
	}
	defer m.uploads.leave()
	up := &upload{stream: stream, limit: m.s.conf.MaxModuleBytes}
	blocks, err := up.receive()
	if err != nil {
		return err
	}
	// What an upload waits for here, others have whole: one that is still on its
	// way keeps nobody from it.
	select {
	case m.compiling <- struct{}{}:
		defer func() { <-m.compiling }()
	case <-ctx.Done():
		return ctx.Err()
	}
	wasm := join(blocks, up.received)
	clear(blocks)
	mod, err := m.s.conf.Modules.Upload(ctx, appOf(up.header.GetApp()), wasm, up.stage)
	if err != nil {
		return err
	}
	return up.send(&greenroomv1.UploadResponse{
		Event: &greenroomv1.UploadResponse_Module{Module: moduleToProto(mod)},
	})
}

// upload is one stream that carries a module.
type upload struct {
	stream   *connect.BidiStream[greenroomv1.UploadRequest, greenroomv1.UploadResponse]
	limit    int64
	header   *greenroomv1.UploadHeader
	received int64
}

// receive returns the module's bytes, as the header promised them.
func (u *upload) receive() ([][]byte, error) {
	first, err := u.stream.Receive()
	if ended(err) {
		return nil, &actor.ArgumentError{Field: "upload", Problem: "is empty; send a header, then the module"}
	}
	if err != nil {
		return nil, err
	}
	if u.header = first.GetHeader(); u.header == nil {
		return nil, &actor.ArgumentError{Field: "upload", Problem: "begins with a chunk; send a header first"}
	}
	if u.header.GetSize() > u.limit {
		return nil, errModuleTooLarge(u.limit)
	}
	blocks, err := u.blocks()
	if err != nil {
		return nil, err
	}
	if size := u.header.GetSize(); size != 0 && size != u.received {
		return nil, &actor.ArgumentError{Field: "upload", Problem: fmt.Sprintf("has %d bytes, and its header says %d; send all of the module", u.received, size)}
	}
	if want := actor.Digest(u.header.GetDigest()); want != "" {
		if got := actor.DigestOf(blocks...); got != want {
			return nil, &actor.ArgumentError{Field: "upload", Problem: fmt.Sprintf("has the digest %s, and its header says %s; send the module that the header describes", got, want)}
		}
	}
	return blocks, nil
}

// blocks receives to the end of the stream. Memory grows with what has come,
// since the header's size is only a claim, and in blocks, since chunks may have a
// byte each.
func (u *upload) blocks() ([][]byte, error) {
	var blocks [][]byte
	reported := int64(0)
	for {
		msg, err := u.stream.Receive()
		if ended(err) {
			return blocks, u.progress(greenroomv1.UploadProgress_STAGE_RECEIVING)
		}
		if err != nil {
			return nil, err
		}
		if msg.GetHeader() != nil {
			return nil, &actor.ArgumentError{Field: "upload", Problem: "has a second header; send one"}
		}
		chunk := msg.GetChunk()
		if len(chunk) == 0 {
			continue // nothing to keep, however many come
		}
		u.received += int64(len(chunk))
		switch size := u.header.GetSize(); {
		case u.received > u.limit:
			return nil, errModuleTooLarge(u.limit)
		case size != 0 && u.received > size:
			return nil, &actor.ArgumentError{Field: "upload", Problem: fmt.Sprintf("has more than the %d bytes that its header says", size)}
		}
		if size := u.header.GetSize(); size > 0 && len(blocks) > 1 && u.received*claimed >= size {
			blocks = [][]byte{join(blocks, size)}
		}
		if last := len(blocks) - 1; last >= 0 && len(blocks[last])+len(chunk) <= cap(blocks[last]) {
			blocks[last] = append(blocks[last], chunk...)
		} else {
			blocks = append(blocks, append(make([]byte, 0, max(len(chunk), uploadBlock)), chunk...))
		}
		if u.received-reported >= progressEvery {
			reported = u.received
			if err := u.progress(greenroomv1.UploadProgress_STAGE_RECEIVING); err != nil {
				return nil, err
			}
		}
	}
}

// join returns blocks in one, with room for size bytes.
func join(blocks [][]byte, size int64) []byte {
	if len(blocks) == 1 {
		return blocks[0]
	}
	whole := make([]byte, 0, size)
	for _, b := range blocks {
		whole = append(whole, b...)
	}
	return whole
}

// stage reports what happens to a module that has arrived.
func (u *upload) stage(s modules.Stage) {
	stage := greenroomv1.UploadProgress_STAGE_VALIDATING
	if s == modules.StageStoring {
		stage = greenroomv1.UploadProgress_STAGE_STORING
	}
	_ = u.progress(stage) // a caller that is gone shows in ctx, and the upload may as well be finished
}

func (u *upload) progress(stage greenroomv1.UploadProgress_Stage) error {
	return u.send(&greenroomv1.UploadResponse{Event: &greenroomv1.UploadResponse_Progress{
		Progress: &greenroomv1.UploadProgress{Stage: stage, Received: u.received},
	}})
}

func (u *upload) send(msg *greenroomv1.UploadResponse) error {
	return u.stream.Send(msg)
}

// Download implements ModuleService.
func (m *moduleService) Download(ctx context.Context, req *connect.Request[greenroomv1.DownloadRequest], stream *connect.ServerStream[greenroomv1.DownloadResponse]) error {
	wasm, err := m.s.conf.Modules.Bytes(ctx, appOf(req.Msg.GetApp()), actor.Digest(req.Msg.GetDigest()))
	if err != nil {
		return err
	}
	msg := &greenroomv1.DownloadResponse{Size: int64(len(wasm))}
	for {
		n := min(len(wasm), downloadChunk)
		msg.Chunk, wasm = wasm[:n], wasm[n:]
		if err := stream.Send(msg); err != nil {
			return err
		}
		if len(wasm) == 0 {
			return nil
		}
		msg = &greenroomv1.DownloadResponse{}
	}
}
