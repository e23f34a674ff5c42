package rpc

import (
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/server/edge"
)

// progressEvery is how many bytes lie between two reports of what arrived.
const progressEvery = 1 << 20

// uploadMessage is a message of a stream that carries a module.
type uploadMessage interface {
	GetHeader() *greenroomv1.UploadHeader
	GetChunk() []byte
}

// upload is one stream that carries a module.
type upload struct {
	next     func() (uploadMessage, error)           // the next message
	report   func(*greenroomv1.UploadProgress) error // called as the upload goes on
	exchange *edge.Exchange
	limit    int64
	header   *greenroomv1.UploadHeader
	spool    *spool
}

// begin receives the header.
func (u *upload) begin(spools *spools) error {
	first, err := u.next()
	if ended(err) {
		return &actor.ArgumentError{Field: "upload", Problem: "is empty; send a header, then the module"}
	}
	if err != nil {
		return err
	}
	if u.header = first.GetHeader(); u.header == nil {
		return &actor.ArgumentError{Field: "upload", Problem: "begins with a chunk; send a header first"}
	}
	if u.header.GetSize() > u.limit {
		return edge.ErrModuleTooLarge(u.limit)
	}
	u.spool, err = spools.open(edge.AppOf(u.header.GetApp()))
	return err
}

// receive takes the module's bytes, as the header promised them.
func (u *upload) receive() error {
	if err := u.chunks(); err != nil {
		return err
	}
	if size := u.header.GetSize(); size != 0 && size != u.spool.size {
		return &actor.ArgumentError{Field: "upload", Problem: fmt.Sprintf("has %d bytes, and its header says %d; send all of the module", u.spool.size, size)}
	}
	if want, got := actor.Digest(u.header.GetDigest()), u.spool.sum(); want != "" && got != want {
		return &actor.ArgumentError{Field: "upload", Problem: fmt.Sprintf("has the digest %s, and its header says %s; send the module that the header describes", got, want)}
	}
	return nil
}

// chunks receives to the end of the stream. Of the module, one message is in memory.
func (u *upload) chunks() error {
	reported := int64(0)
	for {
		u.exchange.ReleaseBody() // what has come so far is not in memory any more
		msg, err := u.next()
		if ended(err) {
			return u.progress(greenroomv1.UploadProgress_STAGE_RECEIVING)
		}
		if err != nil {
			return err
		}
		if msg.GetHeader() != nil {
			return &actor.ArgumentError{Field: "upload", Problem: "has a second header; send one"}
		}
		chunk := msg.GetChunk()
		switch received, size := u.spool.size+int64(len(chunk)), u.header.GetSize(); {
		case received > u.limit:
			return edge.ErrModuleTooLarge(u.limit)
		case size != 0 && received > size:
			return &actor.ArgumentError{Field: "upload", Problem: fmt.Sprintf("has more than the %d bytes that its header says", size)}
		}
		if err := u.spool.write(chunk); err != nil {
			return err
		}
		if u.spool.size-reported >= progressEvery {
			reported = u.spool.size
			if err := u.progress(greenroomv1.UploadProgress_STAGE_RECEIVING); err != nil {
				return err
			}
		}
	}
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
	return u.report(&greenroomv1.UploadProgress{Stage: stage, Received: u.spool.size})
}
