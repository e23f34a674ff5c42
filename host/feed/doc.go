// Package feed gives subscribers the events of actors, and trims what is kept of them. It knows
// neither turns nor the network: package host reports which actors have published, and servers
// have streams of subscribers.
//
// It guarantees that a subscriber gets the events of its actor in their order, each once, from
// the position on that it names, or [actor.ErrPositionGone] if some of those were trimmed. Only
// what is durable is delivered: events are read from the store.
//
// # Parts
//
//	Feed     the subscriptions of a process; tells each topic when to read
//	topic    one actor that has subscribers here: what was read last, which they share
//	trimmer  removes old events of actors that publish here
//
// # How a subscriber waits
//
//	        events after its position             none, and nothing was published since they were read
//	read ◀────────────────────────── delivered ──▶ waits ─▶ published here, or a poll of the store ─▶ read
//
// A subscriber that has waited for a while is called without events, so that its stream can say that it lives.
//
// One read of the store serves all subscribers of an actor that wait for the same position; a
// subscriber that is behind what its topic remembers reads for itself. A subscriber may name a position
// that no event has: the topic follows what is published, and the subscriber waits until that is beyond
// its position. If other hosts share the store, their actors publish without a report here, so a topic
// asks the store every [Config].PollEvery.
package feed
