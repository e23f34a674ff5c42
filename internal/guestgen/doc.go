// Package guestgen writes the guest's side of a Protobuf service, from .proto files: messages with
// their codec, the methods as an interface or a trait, their registration with the service's
// descriptor, references for calls from other actors, and functions that publish the events of rpcs
// that return streams. [Load] compiles the files and finds the service; [Go] writes a Go package,
// whose codec needs no reflection, and [Rust] a Rust module, whose codec is prost's. Both refuse what
// has no form in the language, and say what to rename.
package guestgen
