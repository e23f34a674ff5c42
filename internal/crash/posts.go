package crash

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/client"
)

// Posts are actors of internal/node/testdata/post that send each other messages while servers
// break. They come in waves, each of actors of its own. Its methods may be called concurrently.
type Posts struct {
	// Do makes a call that may be repeated, again until it is answered.
	Do func(ctx context.Context, req client.Request) ([]byte, error)
	// Rounds is how often an actor sends in a wave. Defaults to 12.
	Rounds int
}

// In a wave, each of so many actors sends so many messages to each of the others, and to one that is
// locked, in each round.
const (
	PostsOfWave   = 4
	sentEach      = 3
	defaultRounds = 12
)

func (p *Posts) rounds() int { return cmp.Or(p.Rounds, defaultRounds) }

// OfWave is how many messages are taken in a wave.
func (p *Posts) OfWave() int { return PostsOfWave * PostsOfWave * sentEach * p.rounds() }

// Messages returns GREENROOM_MESSAGES, which is how many messages a test has its actors send at
// least, or usual if it is not set.
func Messages(t testing.TB, usual int) int { return variable(t, "GREENROOM_MESSAGES", usual) }

// Large returns Posts for so many messages: waves that are larger for a long run.
func Large(messages int, do func(ctx context.Context, req client.Request) ([]byte, error)) Posts {
	p := Posts{Do: do}
	p.Rounds = min(max(defaultRounds, messages/100/p.OfWave()*defaultRounds), 400)
	return p
}

func postID(wave, i int) string { return fmt.Sprint("p", wave, "-", i) }

// counted is what an actor has counted.
type counted struct {
	Got      map[string]int `json:"got"`
	Disorder int            `json:"disorder"`
	Refused  int            `json:"refused"`
	Back     int            `json:"back"`
}

func (c *counted) all() (n int) {
	for _, of := range c.Got {
		n += of
	}
	return n
}

// Send has the actors of a wave begin to send.
func (p *Posts) Send(ctx context.Context, wave int) error {
	type ref struct{ Type, ID string }
	for sender := range PostsOfWave {
		var to []ref
		for i := range PostsOfWave {
			if i != sender {
				to = append(to, ref{"Post", postID(wave, i)})
			}
		}
		order, err := json.Marshal(map[string]any{"to": append(to, ref{"Locked", postID(wave, PostsOfWave)}), "each": sentEach, "rounds": p.rounds()})
		if err != nil {
			return err
		}
		// Under one key, so that it is done once.
		req := client.Request{Type: "Post", ID: postID(wave, sender), Method: "Send", Payload: order, IdempotencyKey: "send"}
		if _, err := p.Do(ctx, req); err != nil {
			return fmt.Errorf("%s sends: %w", req.ID, err)
		}
	}
	return nil
}

// Taken returns how many messages of a wave were taken by now. over reports whether all of them
// were, and those that were refused have come back. problems says what is not as it must be: each
// message takes effect once, in the order of its sender.
func (p *Posts) Taken(ctx context.Context, wave int) (taken int, over bool, problems []string, err error) {
	over = true
	for i := range PostsOfWave + 1 {
		typ, senders, back := "Post", PostsOfWave-1, p.rounds()
		if i == PostsOfWave {
			typ, senders, back = "Locked", PostsOfWave, 0
		}
		var c counted
		text, err := p.Do(ctx, client.Request{Type: typ, ID: postID(wave, i), Method: "Count", ReadOnly: true, Strong: true})
		if err == nil {
			err = json.Unmarshal(text, &c)
		}
		if err != nil {
			return 0, false, nil, fmt.Errorf("read %s %s: %w", typ, postID(wave, i), err)
		}
		taken += c.all()
		over = over && c.all() >= senders*sentEach*p.rounds() && c.Back >= back
		if c.Disorder != 0 || c.Back > back || c.Refused > back || len(c.Got) > senders {
			problems = append(problems, fmt.Sprintf("%s %s got %d messages out of order or again; of %d refused ones %d came back; it has %d senders", typ, postID(wave, i), c.Disorder, c.Refused, c.Back, len(c.Got)))
		}
		for from, n := range c.Got {
			if n > sentEach*p.rounds() {
				problems = append(problems, fmt.Sprintf("%s %s got %d messages from %s, of %d", typ, postID(wave, i), n, from, sentEach*p.rounds()))
			}
		}
	}
	return taken, over, problems, nil
}

// Wave has the actors of a wave send, and waits until all was taken, which it counts. The error may say
// that messages took effect otherwise than they must.
func (p *Posts) Wave(ctx context.Context, wave int) (taken int, err error) {
	if err := p.Send(ctx, wave); err != nil {
		return 0, err
	}
	for {
		taken, over, problems, err := p.Taken(ctx, wave)
		switch {
		case err != nil:
			return 0, err
		case len(problems) > 0:
			return 0, errors.New(strings.Join(problems, "; "))
		case over:
			return taken, nil
		}
		select { // the reads are not to keep the servers from their messages
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

const pollEvery = 100 * time.Millisecond
