// Package server is Greenroom's front door: ActorService, ModuleService, ReminderService and
// others over Connect, gRPC and gRPC-Web, the plain HTTP form of actor calls, the console,
// health, reflection and metrics. All are on one port, over HTTP/1.1 and HTTP/2, in plain text or TLS.
//
// [Server] composes the parts and starts and stops them. Each part knows those below it only:
//
//	server     starts, drains and stops
//	dapr       plain HTTP: calls, reminders and timers of actors
//	rpc        one file for each service; health; what guests logged
//	edge       listeners, TLS, who may call, limits, routes
//	codec      messages in binary and JSON
//	metrics    what is counted
//	recent     the turns of the last hour
//	diagnosis  what is wrong with a server or its cluster
//	reminders  what rpc and dapr share about reminders
//	failure    the map from errors to codes
//	query      finds actors by filters in CEL
//	stream     one InvokeStream
//
// # The way of a request
//
//	listener ── exchange ── admission ── CORS ── route ── handler ── Host, Modules
//
// Four rules hold on this way:
//
//   - The exchange gives the request an ID, bounds the time for its body and the size of
//     the body, turns a panic into an internal error, and counts the request.
//   - Admission decides which callers are served; see below.
//   - The route is found by the path as it was sent. The path is never cleaned, so that no
//     actor ID means anything but itself.
//   - Every error passes the one map of package failure on its way out, and carries an
//     ErrorDetail. An error that the map does not know is answered with neutral text and
//     logged with the request's ID.
//
// protocol.md beside this file has the rest: streams of calls, memory of requests, and the
// behaviour under each failure.
package server
