// Command paper is a guest whose readers subscribe to the events of papers.
package main

import "github.com/greenroom-run/greenroom/guest-sdk/go/actor"

// Paper publishes numbered issues.
type Paper struct {
	Issues int `json:"issues"`
}

// Publish publishes so many issues.
func (p *Paper) Publish(ctx *actor.Context, n int) (int, error) {
	for range n {
		p.Issues++
		if err := actor.Publish(ctx, "issue", p.Issues); err != nil {
			return 0, err
		}
	}
	return p.Issues, nil
}

// End ends the paper's life. Its next one begins with the first issue.
func (p *Paper) End(ctx *actor.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, actor.PassAway(ctx)
}

// Reader reads papers.
type Reader struct {
	// Last is the last issue that was read of each paper, and First the first one.
	Last  map[string]int `json:"last"`
	First map[string]int `json:"first"`
	// Disorder counts the issues that came before an earlier one, or again, or with a gap that was not
	// reported; Gone counts the reports of gaps, and Ended those of papers that have passed away.
	Disorder int  `json:"disorder"`
	Gone     int  `json:"gone"`
	Ended    int  `json:"ended"`
	Skips    bool `json:"skips"` // the next issue may be any later one
	Read     int  `json:"read"`
	// Stops is after how many issues it unsubscribes; 0: never.
	Stops int    `json:"stops"`
	Fails int    `json:"fails"` // the issue that fails at the first attempts
	Cause string `json:"cause"` // what the last issue said of itself
}

// Order is what a reader subscribes to.
type Order struct {
	Paper string `json:"paper"`
	Stops int    `json:"stops"`
	Fails int    `json:"fails"`
	Lost  bool   `json:"lost"` // the turn fails
}

func paper(id string) actor.Ref { return actor.Ref{Type: "Paper", ID: id} }

// Subscribe subscribes to a paper.
func (r *Reader) Subscribe(ctx *actor.Context, o Order) (actor.None, error) {
	r.Stops, r.Fails = o.Stops, o.Fails
	if err := actor.Subscribe(ctx, paper(o.Paper), "Issue"); err != nil {
		return actor.None{}, err
	}
	if o.Lost {
		return actor.None{}, actor.Errorf("told_to", "as it was told")
	}
	return actor.None{}, nil
}

// Many subscribes to so many papers.
func (r *Reader) Many(ctx *actor.Context, n int) (actor.None, error) {
	for i := range n {
		if err := actor.Subscribe(ctx, paper("many-"+string(rune('a'+i%26))+string(rune('a'+i/26))), "Issue"); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, nil
}

// Unsubscribe ends a subscription.
func (r *Reader) Unsubscribe(ctx *actor.Context, id string) (bool, error) {
	return actor.Unsubscribe(ctx, paper(id))
}

// Issue reads an issue.
func (r *Reader) Issue(ctx *actor.Context, in actor.Payload) (actor.None, error) {
	c := ctx.Cause()
	if c.Failed == actor.EventsGone {
		r.Gone++
		r.Skips = true
		return actor.None{}, nil
	}
	if c.Failed == actor.PublisherPassedAway {
		if c.Attempt == 1 {
			return actor.None{}, actor.Errorf("not_yet", "not at this attempt")
		}
		r.Ended++
		delete(r.Last, c.From.ID)
		return actor.None{}, nil
	}
	n := 0
	for _, digit := range in.Data {
		n = 10*n + int(digit-'0')
	}
	if n == r.Fails && c.Attempt < 3 {
		return actor.None{}, actor.Errorf("not_yet", "not at this attempt")
	}
	if r.Last == nil {
		r.Last, r.First = map[string]int{}, map[string]int{}
	}
	last, known := r.Last[c.From.ID]
	switch {
	case !known:
		r.First[c.From.ID] = n
	case n <= last || n != last+1 && !r.Skips:
		r.Disorder++
	}
	r.Skips = false
	r.Last[c.From.ID] = n
	r.Cause = string(c.Kind) + " " + c.Name + " of " + c.From.Type
	if r.Read++; r.Read == r.Stops {
		_, err := actor.Unsubscribe(ctx, c.From)
		return actor.None{}, err
	}
	return actor.None{}, nil
}

// End ends the reader's life.
func (r *Reader) End(ctx *actor.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, actor.PassAway(ctx)
}

// View returns what the reader has read.
func (r *Reader) View(*actor.Context, actor.None) (Reader, error) { return *r, nil }

func init() {
	actor.Register("Paper", actor.EventPolicy{Count: 40}, actor.Method("Publish", (*Paper).Publish), actor.Method("End", (*Paper).End))
	actor.Register("Reader",
		actor.Method("Subscribe", (*Reader).Subscribe), actor.Method("Many", (*Reader).Many), actor.Method("Unsubscribe", (*Reader).Unsubscribe),
		actor.Method("Issue", (*Reader).Issue), actor.Method("End", (*Reader).End), actor.ReadOnly("View", (*Reader).View))
	actor.Register("Anywhere", actor.PlacementAny,
		actor.Method("Subscribe", (*Anywhere).Subscribe), actor.Method("Issue", (*Anywhere).Issue), actor.ReadOnly("View", (*Anywhere).View))
}

// Anywhere is a reader of another placement.
type Anywhere struct{ Reader }

func main() {}
