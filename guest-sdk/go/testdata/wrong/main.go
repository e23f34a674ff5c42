// Command wrong has what a newcomer gets wrong in a method's signature, each with
// the compiler's answer to it.
package main

import "github.com/greenroom-run/greenroom/guest-sdk/go/actor"

type Account struct{ Balance int64 }

func (a *Account) NoOutput(ctx *actor.Context, in int64) error        { return nil }
func (a *Account) NoError(ctx *actor.Context, in int64) int64         { return 0 }
func (a *Account) NoInput(ctx *actor.Context) (int64, error)          { return 0, nil }
func (a *Account) NoContext(in int64) (int64, error)                  { return 0, nil }
func (a Account) ByValue(ctx *actor.Context, in int64) (int64, error) { return 0, nil }

func init() {
	actor.Register("Account",
		actor.Method("NoOutput", (*Account).NoOutput),   // want (*Account).NoOutput does not match inferred type func(state *Account, ctx *actor.Context, in int64) (Out, error)
		actor.Method("NoError", (*Account).NoError),     // want (*Account).NoError does not match inferred type func(state *Account, ctx *actor.Context, in int64) (Out, error)
		actor.Method("NoInput", (*Account).NoInput),     // want (*Account).NoInput does not match func(state *S, ctx *actor.Context, in In) (Out, error)
		actor.Method("NoContext", (*Account).NoContext), // want (*Account).NoContext does not match func(state *S, ctx *actor.Context, in In) (Out, error)
		actor.Method("ByValue", Account.ByValue),        // want Account.ByValue does not match func(state *S, ctx *actor.Context, in In) (Out, error)
	)
}

func main() {}
