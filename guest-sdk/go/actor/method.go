package actor

import "github.com/greenroom-run/greenroom/abi"

// MethodOption says more about a method.
type MethodOption func(*abi.MethodSpec)

// Idempotent declares that running the method twice is as good as once, so that
// callers may repeat a call whose outcome they do not know.
func Idempotent() MethodOption { return func(m *abi.MethodSpec) { m.Idempotent = true } }

// Reentrant lets the method be called while another turn of the actor, of the same chain of
// calls, waits for that call. It finds the state as that turn has made it so far, and that
// turn finds its changes in the state struct when its call returns: what it has kept of the
// struct's maps and slices is that of before. Without it the caller gets
// [ErrNotReentrant]. The call may come by way of other servers.
func Reentrant() MethodOption { return func(m *abi.MethodSpec) { m.Reentrant = true } }

// AllReentrant makes all methods of the type [Reentrant].
func AllReentrant() Part { return allReentrant{} }

type allReentrant struct{}

func (allReentrant) addTo(t *actorType) { t.spec.Reentrant, t.reentrant = true, true }

// Private keeps callers from outside from the method: only actors of the app call it, with
// [Call] and [Send], and reminders and timers of the actor itself.
func Private() MethodOption { return func(m *abi.MethodSpec) { m.Private = true } }

// RequireAtomic has every [Call] of the method be in its caller's transaction, as [Atomic] has a single
// one: where another server holds the actor, the call fails with [ErrNotAtomic] before it has run.
func RequireAtomic() MethodOption { return func(m *abi.MethodSpec) { m.Atomic = abi.AtomicRequired } }

// method is a registered method. run does everything between a decoded frame and
// the reply.
type method struct {
	spec abi.MethodSpec
	run  func(ctx *Context) error
}

// Method is a method of an actor type, for [Register]. fn is usually a method
// expression: actor.Method("AddItem", (*Cart).AddItem).
func Method[S, In, Out any](name string, fn func(state *S, ctx *Context, in In) (Out, error), opts ...MethodOption) Part {
	return newMethod(abi.MethodSpec{Name: name}, fn, opts)
}

// ReadOnly is a method that never changes anything: it may run beside other
// turns, and is reachable by HTTP GET. What it reads may miss what another server
// of the same database wrote in the last 100 ms, unless its caller asks for a strong
// read. A write through [Context.State] fails the turn with [ErrReadOnly], and so does, in
// the test kit, a return with a changed state struct, whose changes a server drops.
func ReadOnly[S, In, Out any](name string, fn func(state *S, ctx *Context, in In) (Out, error), opts ...MethodOption) Part {
	return newMethod(abi.MethodSpec{Name: name, ReadOnly: true}, fn, opts)
}

func newMethod[S, In, Out any](spec abi.MethodSpec, fn func(*S, *Context, In) (Out, error), opts []MethodOption) Part {
	for _, o := range opts {
		o(&spec)
	}
	inputs, outputs := prepareInput[In](), prepare[Out]()
	run := func(ctx *Context) error {
		var in In
		if err := ctx.decodeInput(inputs, &in); err != nil {
			if ctx.frame.Cause == abi.CauseEvent && ctx.frame.Failed == PublisherPassedAway {
				return nil // the method takes events alone; later events do not wait
			}
			return err
		}
		state, err := ctx.loadState()
		if err != nil {
			return err
		}
		out, err := fn(state.(*S), ctx, in)
		if failed(err) {
			return err
		}
		if err := ctx.saveState(); err != nil {
			return err
		}
		return ctx.reply(outputs, &out)
	}
	return &methodPart{method: &method{spec: spec, run: run}, state: stateTypeOf[S](spec.Name)}
}

type methodPart struct {
	method *method
	state  *stateType
}

func (p *methodPart) addTo(t *actorType) { t.addMethod(p.method, p.state) }
