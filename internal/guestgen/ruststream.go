package guestgen

import "google.golang.org/protobuf/reflect/protoreflect"

// rustPublisher is the name of the function that publishes the events of a streaming rpc.
func rustPublisher(m protoreflect.MethodDescriptor) string {
	return rustSnake("publish_" + string(m.Name()))
}

// streams writes the functions that publish the events of the streaming rpcs.
func (r *rust) streams(s *Service) {
	for _, m := range s.streams() {
		r.line("")
		r.line("/// Publishes an event to the clients of the rpc `%s` of the actor, as", m.Name())
		r.line("/// [`publish`](::greenroom::Context::publish) does: they get it when the turn commits.")
		if comment(m) != "" {
			r.line("///")
			r.doc(m, "")
		}
		r.call("pub fn "+rustPublisher(m), []string{"ctx: &::greenroom::Context", "event: " + r.path(m.Output(), nil)},
			" -> ::core::result::Result<(), ::greenroom::Error> {")
		r.line("    ctx.publish(%q, event)", m.Name())
		r.line("}")
	}
}
