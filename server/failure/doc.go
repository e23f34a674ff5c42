// Package failure says how errors look to callers. [Of] is the one map from errors to kinds,
// codes and texts: an error that it does not know is internal, with neutral text for the
// caller and the error itself for the log. A [Failure] has two forms on the wire: the error
// of Connect, gRPC and gRPC-Web ([Failure.RPC]), and JSON for the plain HTTP form
// ([WriteHTTP]). docs/errors.md lists the kinds; a test keeps it and the map the same.
package failure
