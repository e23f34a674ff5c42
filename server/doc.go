// Package server is Greenroom's front door: ActorService, ModuleService, ReminderService and
// others over Connect, gRPC and gRPC-Web, the plain HTTP form of actor calls, health,
// reflection and metrics. All are on one port, over HTTP/1.1 and HTTP/2, in plain text or TLS.
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
// # Who may speak
//
// The server listens on loopback unless it requires a bearer token or client certificates,
// or Insecure says that neither is wanted: [New] refuses any other configuration. There may
// be many tokens, each with a role and optionally for one app only. A route names the role
// that it needs; a route without one is for admins. An interceptor finds the app in each
// message. Where a token and client certificates are both configured, both are needed.
// Health answers without a token, but client certificates are part of TLS and so needed for
// everything.
//
// Browsers reach loopback too, on behalf of any page, and they add client certificates by
// themselves. So, unless a token is required:
//
//   - A request with an Origin is refused unless that origin is allowed or is the server
//     itself. A request without an Origin is refused if its Sec-Fetch-Site says that a page
//     of another origin embeds the answer.
//   - On loopback without client certificates, a request for a host name other than a
//     loopback name is refused, because it looks like DNS rebinding. A reverse proxy on the
//     same machine that passes a public host name on needs a token, or Insecure.
//
// With [Config.Peers] the server also serves the other hosts of the cluster
// (InterconnectService), whose streams are served like those of clients with another Edge,
// together with the other services for hosts. Hosts use the same port or a port of their own.
// On the same port, the server name of the TLS handshake tells hosts from clients, or, where
// clients use plain text, TLS itself does. A host proves with its certificate that it
// belongs to the cluster, and reaches nothing of the API.
//
// protocol.md beside this file has the rest: streams of calls, memory of requests, and the
// behaviour under each failure.
package server
