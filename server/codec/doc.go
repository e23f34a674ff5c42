// Package codec has the forms of messages on the wire, in Protobuf's binary form and in JSON. A
// message that cannot be decoded reaches the interceptor of package edge as a typed error, and
// payloads that are JSON can be given and asked for as JSON instead of bytes.
package codec
