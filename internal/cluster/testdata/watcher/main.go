// Command watcher is a guest whose actors watch the servers of others, and note what they learn.
package main

import (
	"fmt"

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

func (w *Watcher) Book(*actor.Context, actor.None) ([]string, error) { return w.Ended, nil }

func init() {
	actor.Register("Watcher", actor.Method("Watch", (*Watcher).Watch), actor.Method("Lost", (*Watcher).Lost, actor.Private()),
		actor.ReadOnly("Book", (*Watcher).Book))
}

func main() {}
