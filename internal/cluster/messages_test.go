//go:build unix

package cluster_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

// posts are actors that send each other messages while members of a cluster break.
type posts struct {
	crash.Posts
	waves   int
	sending sync.WaitGroup
}

// newPosts deploys what sends.
func newPosts(t *testing.T, r *run) *posts {
	t.Helper()
	deployGuest(t, r.members[0], "../node/testdata/post", guestbuild.Go)
	p := &posts{Posts: crash.Posts{Do: r.reply}}
	t.Cleanup(p.sending.Wait)
	return p
}

// wave has the actors of one more wave begin to send, whatever breaks meanwhile.
func (p *posts) wave(t *testing.T) {
	wave := p.waves
	p.waves++
	p.sending.Go(func() {
		if err := p.Send(t.Context(), wave); err != nil {
			t.Error(err)
		}
	})
}

// end waits until every message was taken, and checks that each was once, in the order of its
// sender.
func (p *posts) end(t *testing.T) {
	t.Helper()
	p.sending.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), stalled)
	defer cancel()
	messages := 0
	for wave := range p.waves {
		for {
			taken, over, problems, err := p.Taken(ctx, wave)
			if err != nil {
				t.Fatal(err)
			}
			if len(problems) > 0 {
				t.Fatal(strings.Join(problems, "; "))
			}
			if over {
				messages += taken
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("%d of %d messages of a wave were taken", taken, p.OfWave())
			}
		}
	}
	t.Logf("%d messages of %d actors took effect", messages, p.waves*crash.PostsOfWave)
}
