// Package egress sends the HTTP requests of guests that their app is permitted to send.
//
// # What is permitted
//
// A request goes out if its URL matches a rule that the type's manifest declares
// and a rule that the app was granted, and the address that is dialled is public.
// A grant marked private also permits addresses that are not public. The same holds for
// each redirect; this package follows redirects itself.
//
//   - Hosts are compared in one canonical form. Spellings that only some resolvers take
//     for an address, such as 127.1 or 0x7f000001, are refused.
//   - Addresses are judged when they are dialled: a name is resolved here, and the
//     connection is made to an address that was judged, so that a name that
//     resolves to something else a moment later gains nothing. The socket is judged
//     once more before it connects.
//   - Link-local addresses and those of cloud metadata need a private grant of that
//     very address: neither a name nor "*" leads there.
//   - Every app has connections of its own, and others for private grants: one made
//     under a grant is never used without it.
//   - There are no proxies, cookies, credentials in URLs, decompression, nor
//     headers that would change where or how a request goes.
//
// # Bounds
//
// Bytes of a request and of an answer, headers, redirects, requests under way of an
// app and of the host, and the time of all of it together: the turn's, or the
// request's own if that is shorter. A slow answer is cut off when the time is up.
//
// # Failures
//
// They are the codes of abi/SPEC.md section 6, with a message that names the host
// and never the rest of the URL, which may hold a secret, nor an address that a
// name resolved to.
package egress
