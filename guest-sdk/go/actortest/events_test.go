package actortest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
	"github.com/greenroom-run/greenroom/guest-sdk/go/protobuf"
)

// Radio publishes events and tells others.
type Radio struct {
	Back []string `json:"back"`
}

// program is what Radio.Play does.
type program struct {
	Publish []string
	Tell    actor.Ref
	Says    []string
	Delay   bool
	Refuse  bool
}

func (r *Radio) Play(ctx *actor.Context, p program) (actor.None, error) {
	for _, text := range p.Publish {
		if err := actor.Publish(ctx, "song", text); err != nil {
			return actor.None{}, err
		}
	}
	for _, text := range p.Says {
		options := []actor.SendOption{actor.OnUndelivered("Unheard"), actor.Channel(3), actor.Cookie(9)}
		if p.Delay {
			options = append(options, actor.Delay(1))
		}
		if err := actor.Tell(ctx, p.Tell, "Take", text, options...); err != nil {
			return actor.None{}, err
		}
	}
	if p.Refuse {
		return actor.None{}, actor.Errorf("refused", "on purpose")
	}
	return actor.None{}, nil
}

func (r *Radio) Unheard(ctx *actor.Context, text string) (actor.None, error) {
	c := ctx.Cause()
	r.Back = append(r.Back, strings.Join([]string{string(c.Kind), text, c.From.String(), c.Failed}, " "))
	return actor.None{}, nil
}

func init() {
	actor.Register("Radio", actor.EventPolicy{Count: 10, MaxAge: 1e9}, actor.Method("Play", (*Radio).Play), actor.Method("Unheard", (*Radio).Unheard, actor.Private()),
		actor.ReadOnly("Heard", func(r *Radio, _ *actor.Context, _ actor.None) ([]string, error) { return r.Back, nil }))
}

func texts(list []actortest.Event) (all []string) {
	for _, e := range list {
		all = append(all, e.From.String()+" "+e.Name+" "+string(e.Data.Data))
	}
	return all
}

// Events are those of turns that have committed, in their order.
func TestPublish(t *testing.T) {
	h := actortest.New(t)
	play := func(p program) error { return h.Call("Radio", "one", "Play", p, nil) }
	if err := play(program{Publish: []string{"a", "b"}}); err != nil {
		t.Fatal(err)
	}
	if err := play(program{Publish: []string{"lost"}, Refuse: true}); err == nil {
		t.Error("no error")
	}
	if err := play(program{Publish: []string{"c"}}); err != nil {
		t.Fatal(err)
	}
	if got, want := texts(h.Events("Radio", "one")), []string{`Radio||one song "a"`, `Radio||one song "b"`, `Radio||one song "c"`}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	if got := h.Events("Radio", "two"); len(got) != 0 {
		t.Errorf("another actor has %v", got)
	}
	if err := play(program{Publish: []string{strings.Repeat("x", 65<<10)}}); !errors.Is(err, actor.ErrInvalidEvent) {
		t.Errorf("too large an event: %v", err)
	}
	if err := play(program{Publish: make([]string, 257)}); !errors.Is(err, actor.ErrTooMany) {
		t.Errorf("too many events: %v", err)
	}
}

// What is told arrives in order, once; what fails comes back at once and is not repeated.
func TestTell(t *testing.T) {
	h := actortest.New(t)
	depot := actor.Ref{Type: "Depot", ID: "d"}
	play := func(p program) {
		t.Helper()
		if err := h.Call("Radio", "one", "Play", p, nil); err != nil {
			t.Fatal(err)
		}
	}
	play(program{Tell: depot, Says: []string{"a", "b"}})
	if sent := h.Sent(); len(sent) != 2 || !sent[0].Volatile {
		t.Errorf("sent %+v", sent)
	}
	if n := h.Deliver(); n != 2 {
		t.Errorf("%d were delivered", n)
	}
	var got []string
	if err := h.Call("Depot", "d", "Look", nil, &got); err != nil || len(got) != 2 || !strings.Contains(got[0], " a from Radio||one") {
		t.Errorf("got %q, %v", got, err)
	}
	if err := h.Call("Depot", "d", "Close", true, nil); err != nil {
		t.Fatal(err)
	}
	play(program{Tell: depot, Says: []string{"c"}})
	play(program{Tell: actor.Ref{Type: "None", ID: "x"}, Says: []string{"d"}})
	h.Deliver()
	var back []string
	want := []string{"undelivered c Depot||d closed", "undelivered d None||x type_not_found"}
	if err := h.Call("Radio", "one", "Heard", nil, &back); err != nil || !slices.Equal(back, want) {
		t.Errorf("came back: %q, %v, want %q", back, err, want)
	}
	if dead := h.DeadLetters(); len(dead) != 0 {
		t.Errorf("dead letters %v", dead)
	}
}

// tag is a message of Protobuf without fields.
type tag struct{}

func (tag) AppendProtobuf(b []byte) []byte { return b }

func (*tag) DecodeProtobuf(r *protobuf.Reader) {
	for r.Next() {
		r.Skip()
	}
}

// An event is decoded as what it is: JSON is no message of Protobuf.
func TestDecodeEvent(t *testing.T) {
	h := actortest.New(t)
	if err := h.Call("Radio", "one", "Play", program{Publish: []string{"a"}}, nil); err != nil {
		t.Fatal(err)
	}
	e := h.Events("Radio", "one")[0]
	var song string
	if err := e.Decode(&song); err != nil || song != "a" {
		t.Errorf("got %q, %v", song, err)
	}
	if err := e.Decode(new(tag)); err == nil || !strings.Contains(err.Error(), "application/protobuf is needed") {
		t.Errorf("JSON as a message: %v", err)
	}
	e.Data = actor.Payload{ContentType: "application/protobuf", Data: []byte{0x08}}
	if err := e.Decode(new(tag)); err == nil {
		t.Error("a message that is cut off was decoded")
	}
}
