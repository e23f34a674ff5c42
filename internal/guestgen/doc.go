// Package guestgen writes the guest's side of a Protobuf service, from .proto files: messages with
// a codec that needs no reflection, the methods as an interface, their registration with the
// service's descriptor, references for calls from other actors, and functions that publish the events
// of rpcs that return streams. [Load] compiles the files and finds the service; [Go] writes a Go
// package.
package guestgen
