// Package server is Greenroom's front door: ActorService, ModuleService,
// ReminderService and others over Connect, gRPC and gRPC-Web, the plain HTTP form of
// actor calls, health, reflection and metrics, on one port, HTTP/1.1 and HTTP/2, in plain
// text or TLS.
//
// # What a request meets, in order
//
//		listener ── exchange ── admission ── CORS ── route ── handler ── Host, Modules
//
//	  - An exchange gives the request an ID, bounds how long its body may take and
//	    how large it may be, turns a panic into an internal error, and counts it.
//	  - Admission decides who may speak; see below.
//	  - A route is found by the path as it was sent: it is never cleaned, so that
//	    no actor ID means anything but itself.
//	  - Every error passes the one map of errors.go on its way out, and carries an
//	    ErrorDetail. What the map does not know is answered with neutral text and
//	    logged with the request's ID.
//
// # Many calls on one stream
//
// InvokeStream runs what one client has in flight without a request for each; see
// actor.proto for what client and server owe each other, and package server/stream
// for how. This package is its edge: it admits each invocation, with the checks that
// a unary call meets on its way, and describes each error. What a stream has in
// flight is bounded in number and bytes, and so is what all streams hold together,
// with messages that have arrived in part: beyond that, invocations are refused, and
// a stream that sends a large message takes nothing more, answers what it took, and
// ends, both with an error that says so. A message's entries are bounded in number,
// so that few bytes never become much memory. An invocation is ended by its deadline,
// by its client (cancels of InvokeStreamRequest) or with the stream: dropped while it
// is queued, here or in the host, and otherwise given up to the host, which answers
// what became of it.
//
// What waits for news (health's Watch, Tail) is bounded in number.
//
// # Memory of other requests
//
// What has been read of bodies counts until their requests are answered, compressed
// ones for what they become, and what is written until its client has accepted it.
// Above [Config.MaxRequestsBytes] a body of more than 4 KiB is not read on, and no request is taken while too much
// waits for clients that do not read: both get actor.ErrHostFull. Uploads
// wait in files (in all of 16 times [Config.MaxModuleBytes], of which an app that takes
// all that it can leaves half; see spools), which go whatever becomes of them or of the
// process, and their messages have 16 MiB of memory together. They have a deadline for
// all of a module, and ask for a compiler only when they are whole: those that are idle
// keep nobody from it.
//
// # Who may speak
//
// The server listens on loopback unless it asks for a bearer token, for client
// certificates, or was told with Insecure that neither is wanted: [New] refuses
// anything else. There may be many tokens, each with a role and perhaps for one
// app only: a route says what role it needs, or, having none, is for admins, and
// an interceptor finds the app in each message. Where both a token and client certificates are configured, both
// are needed. Health answers without a token, but client certificates are part
// of TLS and so needed for everything.
//
// Browsers reach loopback too, on behalf of any page, and they add client
// certificates by themselves. So, unless a token is asked for:
//
//   - a request with an Origin is refused unless that origin is allowed or is
//     the server itself; so is one without, if its Sec-Fetch-Site says that a page
//     of another origin embeds the answer;
//   - on loopback without client certificates, a request for a host name that is
//     not a loopback name is refused, which is what DNS rebinding looks like. A
//     reverse proxy on the same machine that passes a public host name on needs
//     a token, or Insecure.
//
// # Other hosts of a cluster
//
// With [Config.Peers] the server takes what other hosts say as well: InterconnectService,
// whose streams are served like those of clients with another Edge, and what else they
// have. It comes to the same port, where the name that a TLS handshake asks for, or its
// being one, tells hosts from clients; or to a port of its own. A host proves with its
// certificate that it belongs to the cluster, and reaches nothing of the API.
//
// # Failures
//
//   - Caller gone: its context ends, and with it the wait; what was committed
//     stays.
//   - Slow or stuck callers: headers, bodies and answers have deadlines, a
//     connection without requests is closed, and a dead HTTP/2 peer is found by
//     pings.
//   - Drain: health says that the server is not ready, and everything goes on for
//     [Config.DrainDelay]; from its half on answers end their connections, by Connection:
//     close or GOAWAY, while new ones are still taken.
//   - Stop: new connections are refused, watchers of health are told, requests
//     in flight are finished, and after the deadline cut off. An InvokeStream
//     takes nothing more, answers what it took, and ends with an error that
//     says so: what it did not answer has had no effect.
//   - An InvokeStream whose client does not accept replies is ended, and what it
//     has in flight is cancelled; one that is merely silent is kept for as long
//     as the connection answers pings.
package server
