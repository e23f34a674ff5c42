// Command post is a guest whose actors send numbered messages to each other as they are told to, and
// count what they get.
package main

import (
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Post counts messages.
type Post struct {
	Sent map[string]int `json:"sent"` // to each receiver
	Got  map[string]int `json:"got"`  // from each sender
	// Disorder counts the messages that came before an earlier one of their sender, or again.
	Disorder int `json:"disorder"`
	Refused  int `json:"refused"` // sent to be refused
	Back     int `json:"back"`    // of them, those that came back
	Rounds   int `json:"rounds"`  // of sending, that are done
	// Last is what the last message said of itself.
	Last string `json:"last"`
}

// Order is what to send: so many messages to each of the actors and one that none of them takes, in
// so many rounds, one after the other.
type Order struct {
	To     []actor.Ref `json:"to"`
	Each   int         `json:"each"`
	Rounds int         `json:"rounds"`
	Fail   bool        `json:"fail"`
}

func name(r actor.Ref) string { return r.Type + "/" + r.ID }

// Send sends a round, and itself a message for the next one.
func (p *Post) Send(ctx *actor.Context, in Order) (int, error) {
	if p.Sent == nil {
		p.Sent = map[string]int{}
	}
	for _, to := range in.To {
		for range in.Each {
			p.Sent[name(to)]++
			if err := actor.Send(ctx, to, "Take", p.Sent[name(to)]); err != nil {
				return 0, err
			}
		}
	}
	if len(in.To) > 0 {
		p.Refused++
		if err := actor.Send(ctx, actor.Ref{Type: "Refuser", ID: ctx.Self().ID}, "Refuse", p.Refused, actor.OnUndelivered("Returned"), actor.Cookie(uint64(p.Refused))); err != nil {
			return 0, err
		}
	}
	if in.Fail {
		return 0, actor.Errorf("told_to", "as it was told")
	}
	p.Rounds++
	if in.Rounds--; in.Rounds > 0 {
		return p.Rounds, actor.Send(ctx, ctx.Self(), "Send", in)
	}
	return p.Rounds, nil
}

// Take counts a message. One of five fails at first.
func (p *Post) Take(ctx *actor.Context, n int) (actor.None, error) {
	c := ctx.Cause()
	if n%5 == 4 && c.Attempt == 1 {
		return actor.None{}, actor.Errorf("not_yet", "not at the first attempt")
	}
	if p.Got == nil {
		p.Got = map[string]int{}
	}
	from := name(c.From)
	if p.Got[from]++; p.Got[from] != n {
		p.Disorder++
	}
	p.Last = string(c.Kind) + " from " + from
	return actor.None{}, nil
}

// Returned counts a message that comes back.
func (p *Post) Returned(ctx *actor.Context, n int) (actor.None, error) {
	if c := ctx.Cause(); c.Kind == actor.CauseUndelivered && c.Cookie == uint64(n) && c.Failed != "" {
		p.Back++
	}
	return actor.None{}, nil
}

// Count returns what was counted.
func (p *Post) Count(*actor.Context, actor.None) (Post, error) { return *p, nil }

// Locked is a Post under a lock.
type Locked struct{ Post }

// Refuser takes no message.
type Refuser struct{}

// Refuse never takes a message.
func (*Refuser) Refuse(*actor.Context, int) (actor.None, error) {
	return actor.None{}, actor.Errorf("never", "it never takes one")
}

// Relay has no state, and sends on what it gets.
type Relay struct{}

// Pass sends a message to each actor.
func (*Relay) Pass(ctx *actor.Context, in Order) (actor.None, error) {
	for _, to := range in.To {
		if err := actor.Send(ctx, to, "Take", 1); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, nil
}

// Tell tells each actor a message.
func (*Relay) Tell(ctx *actor.Context, in Order) (actor.None, error) {
	for _, to := range in.To {
		if err := actor.Tell(ctx, to, "Take", 1); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, nil
}

func methods[T any](is func(*T) *Post) []actor.Part {
	return []actor.Part{
		actor.MessagePolicy{Attempts: 1000, Interval: time.Millisecond, Longest: time.Second},
		actor.Method("Send", func(t *T, ctx *actor.Context, in Order) (int, error) { return is(t).Send(ctx, in) }),
		actor.Method("Take", func(t *T, ctx *actor.Context, n int) (actor.None, error) { return is(t).Take(ctx, n) }),
		actor.Method("Returned", func(t *T, ctx *actor.Context, n int) (actor.None, error) { return is(t).Returned(ctx, n) }, actor.Private()),
		actor.ReadOnly("Count", func(t *T, ctx *actor.Context, in actor.None) (Post, error) { return is(t).Count(ctx, in) }),
	}
}

func init() {
	actor.Register("Post", methods(func(p *Post) *Post { return p })...)
	actor.Register("Locked", append(methods(func(l *Locked) *Post { return &l.Post }), actor.PlacementAny)...)
	actor.Register("Refuser", actor.MessagePolicy{Attempts: 2, Interval: time.Millisecond}, actor.Method("Refuse", (*Refuser).Refuse, actor.Private()))
	actor.Register("Relay", actor.PlacementStateless, actor.Method("Pass", (*Relay).Pass), actor.Method("Tell", (*Relay).Tell))
}

func main() {}
