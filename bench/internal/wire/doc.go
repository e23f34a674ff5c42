// Package wire calls actors of another process the ways that clients do. Its
// roles are the load generator and a server whose handlers do nothing.
package wire
