// Package protobuf reads and writes Protobuf's binary form without reflection, for the code that
// greenroom generate writes: it compiles with TinyGo, and needs no other module.
//
// A field whose number or wire type the message does not have is passed over, and is not written
// again.
package protobuf
