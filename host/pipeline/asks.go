package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
)

// Asks groups questions of one kind that the store answers many at a time: the
// versions of rows, the records of calls. All methods may be called concurrently.
type Asks[Q, A any] struct {
	workers[*ask[Q, A]]
	ctx   context.Context
	store func(ctx context.Context, questions []Q) ([]A, error)
	// bytes is how much memory an answer takes; answerBytes is about what one has,
	// by the latest, so that groups stay within Config.GroupBytes.
	bytes       func(A) int64
	answerBytes atomic.Int64
}

type ask[Q, A any] struct {
	question Q
	answer   func(A, error)
}

// NewAsks returns a pipeline of questions to a store, which answers a group in
// its order. app is that of a question, and bytes how large an answer is. When ctx ends, all end.
func NewAsks[Q, A any](ctx context.Context, cfg Config, store func(context.Context, []Q) ([]A, error), app func(Q) string, bytes func(A) int64) *Asks[Q, A] {
	a := &Asks[Q, A]{ctx: ctx, store: store, bytes: bytes}
	size := func(*ask[Q, A]) int64 { return 0 }
	refuse := func(one *ask[Q, A], err error) {
		var none A
		one.answer(none, err)
	}
	a.init(cfg.WithDefaults(), func(one *ask[Q, A]) string { return app(one.question) }, size, a.serve, refuse)
	a.weigh = func(*ask[Q, A]) int64 { return a.answerBytes.Load() }
	return a
}

// Ask asks one question. answer is called once, with what the store said after
// this moment or with why it said nothing, on a goroutine of the pipeline, which
// has more answers to hand out, or, if too many wait, by Ask itself.
func (a *Asks[Q, A]) Ask(question Q, answer func(A, error)) {
	one := &ask[Q, A]{question: question, answer: answer}
	if err := a.put(one, false); err != nil {
		var none A
		answer(none, err)
	}
}

// Get is Ask for a caller that waits: until ctx ends.
func (a *Asks[Q, A]) Get(ctx context.Context, question Q) (A, error) {
	type reply struct {
		answer A
		err    error
	}
	got := make(chan reply, 1)
	a.Ask(question, func(answer A, err error) { got <- reply{answer, err} })
	select {
	case r := <-got:
		return r.answer, r.err
	case <-ctx.Done():
		var none A
		return none, ctx.Err()
	}
}

// Wait returns when no goroutine of the pipeline is left. Nothing may be asked
// any more.
func (a *Asks[Q, A]) Wait() { a.working.Wait() }

func (a *Asks[Q, A]) serve(group []*ask[Q, A]) func(int) {
	questions := make([]Q, len(group))
	for i, one := range group {
		questions[i] = one.question
	}
	answers, err := a.store(a.ctx, questions)
	if err == nil && len(answers) != len(group) {
		err = fmt.Errorf("the store gave %d answers to %d questions", len(answers), len(group))
	}
	if err != nil && errors.Is(err, context.Canceled) && a.ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", actor.ErrStopping, err)
	}
	a.learn(answers)
	return func(i int) {
		var answer A
		if err == nil {
			answer = answers[i]
		}
		group[i].answer(answer, err)
	}
}

// learn brings answerBytes up to date: at once where answers are larger, slowly
// where they are smaller.
func (a *Asks[Q, A]) learn(answers []A) {
	if len(answers) == 0 {
		return
	}
	sum := int64(0)
	for i := range answers {
		sum += a.bytes(answers[i])
	}
	was := a.answerBytes.Load()
	if now := max(sum/int64(len(answers)), was-was/8); now != was {
		a.answerBytes.Store(now) // a neighbour's figure may be lost, which the next one mends
	}
}
