package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sync/errgroup"

	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/engine/binary"
)

const (
	// uploadTimeout covers sending a large module over a slow line and compiling
	// it on a slow machine.
	uploadTimeout = 5 * time.Minute
	// uploadChunk is well below the 1 MiB that the API takes, for a smooth bar.
	uploadChunk = 128 << 10
)

// upload sends a module file, showing the progress on standard error. The file
// manifestPath, unless empty, becomes the manifest of the module.
func upload(ctx context.Context, c *cli, a *api, path, manifestPath string) (*greenroomv1.Module, error) {
	wasm, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	if what := binary.Guess(wasm); what != "" {
		return nil, &actor.ArgumentError{Field: path, Problem: what}
	}
	if manifestPath != "" {
		if wasm, err = withManifest(wasm, manifestPath); err != nil {
			return nil, err
		}
	}
	p := startProgress(c, filepath.Base(path), int64(len(wasm)))
	defer p.end()
	return sendModule(ctx, a, c.app, wasm, p)
}

// withManifest returns the module with the manifest in path as a part of it.
// Faults are found here, where the file is, rather than after the upload.
func withManifest(wasm []byte, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	if _, faults := manifest.Parse(text); len(faults) > 0 {
		messages := make([]string, len(faults))
		for i, f := range faults {
			messages[i] = f.Message
		}
		return nil, fmt.Errorf("the manifest %s is wrong: %s", path, strings.Join(messages, "; "))
	}
	out, err := manifest.Embed(wasm, text)
	if err != nil {
		return nil, fmt.Errorf("add the manifest to the module: %w", err)
	}
	return out, nil
}

// sendModule uploads wasm to app. Errors are those of the server as they are.
func sendModule(ctx context.Context, a *api, app string, wasm []byte, p progress) (*greenroomv1.Module, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	stream := a.uploads.Upload(ctx)
	var module *greenroomv1.Module
	var g errgroup.Group
	g.Go(func() error {
		defer func() { _ = stream.CloseResponse() }()
		for {
			resp, err := stream.Receive()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if m := resp.GetModule(); m != nil {
				module = m
			} else {
				p.stage(resp.GetProgress().GetStage())
			}
		}
	})
	// The reason for a break of the stream comes with Receive.
	if err := sendChunks(stream, app, wasm, p); err != nil && !errors.Is(err, io.EOF) {
		cancel()
		return nil, errors.Join(err, g.Wait())
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if module == nil {
		return nil, errors.New("the server ended the upload without an answer; try again")
	}
	return module, nil
}

func sendChunks(stream *connect.BidiStreamForClient[greenroomv1.UploadRequest, greenroomv1.UploadResponse], app string, wasm []byte, p progress) error {
	err := stream.Send(&greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Header{Header: &greenroomv1.UploadHeader{
		App: app, Size: int64(len(wasm)), Digest: string(actor.DigestOf(wasm)),
	}}})
	for rest := wasm; err == nil && len(rest) > 0; {
		n := min(len(rest), uploadChunk)
		err = stream.Send(&greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Chunk{Chunk: rest[:n]}})
		rest = rest[n:]
		p.sent(int64(len(wasm) - len(rest)))
	}
	if err != nil {
		return err
	}
	return stream.CloseRequest()
}

// progress shows how an upload goes. Two goroutines call its methods.
type progress interface {
	sent(bytes int64)
	stage(s greenroomv1.UploadProgress_Stage)
	// end clears the progress from the screen.
	end()
}

// startProgress shows a bar on a terminal, a line anywhere else.
func startProgress(c *cli, name string, total int64) progress {
	if c.wantsJSON() {
		return noProgress{}
	}
	if !isTerminal(c.stderr) {
		c.printf(c.stderr, "uploading %s (%s)\n", name, size(total))
		return &lines{cli: c}
	}
	p := &bar{container: mpb.New(mpb.WithOutput(c.stderr), mpb.WithWidth(64), mpb.WithAutoRefresh())}
	// A bar made with a total would end when all is sent, but the server goes on.
	p.bar = p.container.New(0, mpb.BarStyle().Lbound("").Filler("█").Tip("█").Padding("░").Rbound(""),
		mpb.PrependDecorators(decor.Name(name+" ")),
		mpb.AppendDecorators(
			decor.CountersKibiByte(" % .1f / % .1f "),
			decor.Any(func(decor.Statistics) string { return p.stageText() }),
		))
	p.bar.SetTotal(total, false)
	return p
}

type noProgress struct{}

func (noProgress) sent(int64)                             {}
func (noProgress) stage(greenroomv1.UploadProgress_Stage) {}
func (noProgress) end()                                   {}

// lines says when the server begins with what may take long.
type lines struct {
	*cli
	noProgress
	compiling bool
}

func (l *lines) stage(s greenroomv1.UploadProgress_Stage) {
	if s == greenroomv1.UploadProgress_STAGE_VALIDATING && !l.compiling {
		l.compiling = true
		l.printf(l.stderr, "%s\n", l.paint(l.stderr, dim, "compiling…"))
	}
}

type bar struct {
	container *mpb.Progress
	bar       *mpb.Bar
	now       atomic.Int32
}

func (b *bar) stageText() string {
	switch greenroomv1.UploadProgress_Stage(b.now.Load()) {
	case greenroomv1.UploadProgress_STAGE_VALIDATING:
		return "checking and compiling"
	case greenroomv1.UploadProgress_STAGE_STORING:
		return "storing"
	}
	return "sending"
}

func (b *bar) sent(n int64) { b.bar.SetCurrent(n) }

func (b *bar) stage(s greenroomv1.UploadProgress_Stage) { b.now.Store(int32(s)) }

func (b *bar) end() {
	b.bar.Abort(true)
	b.container.Wait()
}
