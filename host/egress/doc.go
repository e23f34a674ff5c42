// Package egress sends the HTTP requests of guests, as far as their app may.
//
// # What is let through
//
// A request goes out if its URL matches a rule that the type's manifest declares
// and a rule that the app was granted, and the address that is dialled is public.
// A grant marked private lets addresses through that are not. So it is for each
// redirect, which is followed here and not by net/http.
//
//   - Hosts are compared in one canonical form. What some resolver takes for an
//     address, as 127.1 or 0x7f000001, is refused as a URL.
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
// request's own if that is shorter. An answer that comes slowly is cut off when the
// time is up.
//
// # Failures
//
// They are the codes of abi/SPEC.md section 6, with a message that names the host
// and never the rest of the URL, which may hold a secret, nor an address that a
// name resolved to.
package egress
