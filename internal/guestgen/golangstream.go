package guestgen

import "google.golang.org/protobuf/reflect/protoreflect"

// publisher is the name of the function that publishes the events of a streaming rpc.
func publisher(m protoreflect.MethodDescriptor) string { return "Publish" + goName(string(m.Name())) }

// nameStream takes the name of a streaming rpc's function.
func (g *golang) nameStream(m protoreflect.MethodDescriptor) {
	name := publisher(m)
	if other, ok := g.taken[name]; ok {
		g.fail("%s and %s are both called %s in Go; rename one", other, m.FullName(), name)
	}
	g.taken[name] = m.FullName()
}

// streams writes the functions that publish the events of the streaming rpcs.
func (g *golang) streams(s *Service) {
	for _, m := range s.streams() {
		name, event := publisher(m), g.names[m.Output().FullName()]
		g.line("// %s publishes an event to the clients of the rpc %s of the actor, as [actor.Publish] does:", name, m.Name())
		g.line("// they get it when the turn commits.")
		if text := comment(m); text != "" {
			g.line("//")
			g.comment(m, "")
		}
		g.line("func %s(ctx *actor.Context, event %s) error {", name, event)
		g.line("return actor.Publish(ctx, %q, event)", m.Name())
		g.line("}\n")
	}
}
