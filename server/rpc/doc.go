// Package rpc has the services of the API over Connect, gRPC and gRPC-Web, one file for each,
// and what they share: [Services]. Package edge has admitted and bounded a request before a
// service gets it, and protovalidate has checked it; the services call [Backends]. Streams of
// invocations are served by package stream, those of subscribers by reminderstream.go.
//
// health and [Logs] have state of their own: whether the server is ready, and the latest
// lines that guests logged.
package rpc
