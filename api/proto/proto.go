// Package proto holds the sources of the API, as they were when the binary was
// built: clients of every language are generated from them.
package proto

import "embed"

// Sources has the API's own .proto files, at the paths by which they import each
// other. What they import beside is google/protobuf, which every protoc has, and
// buf/validate/validate.proto.
//
//go:embed greenroom
var Sources embed.FS
