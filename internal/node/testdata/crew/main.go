// Crew is a guest whose foremen have helpers in memory: volatile children. The one in ../crew-rust
// does the same.
package main

import (
	"strconv"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Foreman has helpers.
type Foreman struct {
	Helpers []actor.Ref `json:"helpers"`
	Done    int         `json:"done"` // what the helpers have reported
}

// Hire makes a helper, that shares the foreman's mailbox or not, and tells it to add 1.
func (f *Foreman) Hire(ctx *actor.Context, shared bool) (int, error) {
	var options []actor.ChildOption
	if shared {
		options = append(options, actor.SharedMailbox())
	}
	helper, err := actor.SpawnChild(ctx, "Helper", options...)
	if err != nil {
		return 0, err
	}
	f.Helpers = append(f.Helpers, helper)
	return len(f.Helpers), actor.Tell(ctx, helper, "Add", 1)
}

// Ask has all helpers add, and returns what the last one has then.
func (f *Foreman) Ask(ctx *actor.Context, n int) (last int, err error) {
	for _, helper := range f.Helpers {
		if last, err = actor.Call[int](ctx, helper, "Add", n); err != nil {
			return 0, err
		}
	}
	return last, nil
}

// AskAndFail is Ask of a turn that fails.
func (f *Foreman) AskAndFail(ctx *actor.Context, n int) (int, error) {
	last, err := f.Ask(ctx, n)
	if err == nil {
		err = actor.NewError(actor.StatusAborted, "on_purpose", "the helpers had "+strconv.Itoa(last))
	}
	return 0, err
}

// Report has all helpers tell the foreman what they have.
func (f *Foreman) Report(ctx *actor.Context, _ actor.None) (actor.None, error) {
	for _, helper := range f.Helpers {
		if err := actor.Tell(ctx, helper, "Report", ctx.Self()); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, nil
}

func (f *Foreman) Reported(_ *actor.Context, sum int) (actor.None, error) {
	f.Done += sum
	return actor.None{}, nil
}

func (f *Foreman) View(*actor.Context, actor.None) (int, error) { return f.Done, nil }

// Helper adds up.
type Helper struct {
	Sum int `json:"sum"`
}

func (h *Helper) Add(_ *actor.Context, n int) (int, error) {
	h.Sum += n
	return h.Sum, nil
}

func (h *Helper) Report(ctx *actor.Context, to actor.Ref) (actor.None, error) {
	return actor.None{}, actor.Tell(ctx, to, "Reported", h.Sum)
}

func init() {
	actor.Register("Foreman", actor.Method("Hire", (*Foreman).Hire), actor.Method("Ask", (*Foreman).Ask), actor.Method("AskAndFail", (*Foreman).AskAndFail),
		actor.Method("Report", (*Foreman).Report), actor.Method("Reported", (*Foreman).Reported, actor.Private()), actor.ReadOnly("View", (*Foreman).View))
	actor.Register("Helper", actor.Method("Add", (*Helper).Add), actor.Method("Report", (*Helper).Report, actor.Private()))
}

func main() {}
