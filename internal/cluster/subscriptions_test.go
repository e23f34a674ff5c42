//go:build unix

package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

// papers are actors that publish events, and readers that subscribe to them, while members of a cluster
// break.
type papers struct {
	*run
	waves      int
	publishing sync.WaitGroup
}

// What the papers of a wave publish, at most as many as are kept; and how many readers each has.
const (
	papersOfWave  = 2
	issuesOfPaper = 36
	issuesAtOnce  = 4
	readersOfWave = 3
)

// newPapers deploys what publishes.
func newPapers(t *testing.T, r *run) *papers {
	t.Helper()
	deployGuest(t, r.members[0], "../node/testdata/paper", guestbuild.Go)
	p := &papers{run: r}
	t.Cleanup(p.publishing.Wait)
	return p
}

func paperID(wave, i int) string  { return fmt.Sprint("w", wave, "-", i) }
func readerID(wave, i int) string { return fmt.Sprint("w", wave, "-", i) }

// do makes a call once, under one key.
func (p *papers) do(t *testing.T, typ, id, method, input, key string) bool {
	_, err := p.reply(t.Context(), client.Request{Type: typ, ID: id, Method: method, Payload: []byte(input), IdempotencyKey: key})
	if err != nil {
		t.Errorf("%s of %s %s: %v", method, typ, id, err)
	}
	return err == nil
}

// wave has the readers of one more wave subscribe and its papers publish, whatever breaks meanwhile.
func (p *papers) wave(t *testing.T) {
	wave := p.waves
	p.waves++
	p.publishing.Go(func() {
		for i := range readersOfWave {
			for n := range papersOfWave {
				if !p.do(t, "Reader", readerID(wave, i), "Subscribe", fmt.Sprintf(`{"paper":%q,"fails":7}`, paperID(wave, n)), fmt.Sprint("subscribe ", n)) {
					return
				}
			}
		}
		for first := 0; first < issuesOfPaper; first += issuesAtOnce {
			for n := range papersOfWave {
				if !p.do(t, "Paper", paperID(wave, n), "Publish", fmt.Sprint(issuesAtOnce), fmt.Sprint("issue ", first)) {
					return
				}
			}
		}
	})
}

// end waits until every reader has read everything, and checks that it was once, in order.
func (p *papers) end(t *testing.T) {
	t.Helper()
	p.publishing.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), stalled)
	defer cancel()
	read := 0
	for wave := range p.waves {
		for i := range readersOfWave {
			for over := false; !over; {
				var seen struct {
					Last, First          map[string]int
					Disorder, Gone, Read int
				}
				text, err := p.reply(ctx, client.Request{Type: "Reader", ID: readerID(wave, i), Method: "View", ReadOnly: true, Strong: true})
				if err == nil {
					err = json.Unmarshal(text, &seen)
				}
				if err != nil {
					t.Fatalf("reader %s: %v", readerID(wave, i), err)
				}
				if seen.Disorder != 0 || seen.Gone != 0 || seen.Read > papersOfWave*issuesOfPaper {
					t.Fatalf("reader %s has read out of order, again, or with gaps: %+v", readerID(wave, i), seen)
				}
				over = seen.Read == papersOfWave*issuesOfPaper
				for n := range papersOfWave {
					over = over && seen.First[paperID(wave, n)] == 1 && seen.Last[paperID(wave, n)] == issuesOfPaper
				}
				if over {
					read += seen.Read
				}
				if !over && ctx.Err() != nil {
					t.Fatalf("reader %s has %+v", readerID(wave, i), seen)
				}
			}
		}
	}
	t.Logf("%d events of %d papers were read, each once", read, p.waves*papersOfWave)
}
