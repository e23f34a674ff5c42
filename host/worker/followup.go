package worker

import (
	"slices"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
)

// followUp is what a change of activations leaves to be done when the locks of
// their shards are given back.
type followUp struct {
	launched *activation.Batch // and those that are next to it
	bring    bool              // who does it only waits for the commit of launched
	answered call.Answers
	doubtful call.Answers // failures that are to be looked up; each has one of Shard.Work
	retired
	others   []retired                // others than retired
	accepted []actor.ReminderID       // messages that waited for another method set
	also     []*activation.Activation // others that have changed, by what was done to batches that they share
}

// retired is an activation that has no work any more.
type retired struct {
	a    *activation.Activation // nil: none
	gone bool                   // it has left the table
}

// launch adds a batch to those that are to be sent; nil adds none.
func (then *followUp) launch(b *activation.Batch) {
	if b != nil {
		b.Next, then.launched = then.launched, b
	}
}

// changed adds the activations of a batch to those that have changed.
func (then *followUp) changed(b *activation.Batch) {
	for i := range b.Parts {
		if len(b.Parts) > 1 && !slices.Contains(then.also, b.Parts[i].Activation) {
			then.also = append(then.also, b.Parts[i].Activation)
		}
	}
}
