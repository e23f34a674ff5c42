// Package edge is between the network and the handlers of the API: it listens, speaks TLS,
// decides who may call, bounds requests and connections, and finds the route of each request.
// It knows no service: the packages of the API add their routes with [Edge.Handle],
// [Edge.HandlePlain], [Edge.HandlePages] and [Edge.HandleActors] before the first request.
//
//   - [Edge] serves requests, each of which is an [Exchange] while it lasts.
//   - [Listeners] accept connections, start and stop.
//   - requests.go, bounds.go and places.go have the limits of all requests together.
//
// # Who may speak
//
// The server listens on loopback unless it requires a bearer token or client certificates,
// or Insecure says that neither is wanted: [New] refuses any other configuration. There may
// be many tokens, each with a role and optionally for one app only. A route names the role
// that it needs; a route without one is for admins. An interceptor finds the app in each
// message. Where a token and client certificates are both configured, both are needed.
// Health and the files of the console answer without a token, but client certificates are part
// of TLS and so needed for everything.
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
package edge
