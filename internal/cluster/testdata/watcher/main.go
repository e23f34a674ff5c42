// Command watcher is a guest whose actors watch the servers of others, and services, and note what
// they learn.
package main

import (
	"fmt"
	"strings"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Watcher notes how its watches have ended, in their order.
type Watcher struct {
	Ended []string `json:"ended"`
}

// Watch watches the server of another watcher.
func (w *Watcher) Watch(ctx *actor.Context, of string) (actor.None, error) {
	return actor.None{}, actor.WatchHost(ctx, actor.Ref{Type: "Watcher", ID: of}, "Lost")
}

func (w *Watcher) Lost(ctx *actor.Context, _ actor.None) (actor.None, error) {
	c := ctx.Cause()
	w.Ended = append(w.Ended, fmt.Sprint(c.Kind, " ", c.From.ID, " ", c.Failed))
	return actor.None{}, nil
}

// Follow watches services.
func (w *Watcher) Follow(ctx *actor.Context, name string) (actor.None, error) {
	return actor.None{}, actor.WatchService(ctx, name, "Seen")
}

// Seen notes a list, and goes on to watch after the watcher has moved.
func (w *Watcher) Seen(ctx *actor.Context, now actor.Services) (actor.None, error) {
	c := ctx.Cause()
	seen := []string{string(c.Kind), c.Name}
	for _, s := range now.Services {
		seen = append(seen, s.ID)
	}
	if c.Failed == "" {
		w.Ended = append(w.Ended, strings.Join(seen, " "))
		return actor.None{}, nil
	}
	w.Ended = append(w.Ended, strings.Join(append(seen, c.Failed), " "))
	return w.Follow(ctx, c.Name)
}

// Claim has the watcher stand for a service.
func (w *Watcher) Claim(ctx *actor.Context, name string) (actor.None, error) {
	return actor.None{}, actor.Claim(ctx, name)
}

func (w *Watcher) Book(*actor.Context, actor.None) ([]string, error) { return w.Ended, nil }

func init() {
	actor.Register("Watcher", actor.Method("Follow", (*Watcher).Follow), actor.Method("Seen", (*Watcher).Seen, actor.Private()), actor.Method("Claim", (*Watcher).Claim),
		actor.Method("Watch", (*Watcher).Watch), actor.Method("Lost", (*Watcher).Lost, actor.Private()),
		actor.ReadOnly("Book", (*Watcher).Book))
}

func main() {}
