// Package transcode has the Protobuf services of the actor types that are served, and gives their
// methods to callers who write JSON. [Services] keeps the services that were read. [Host] runs
// calls: a JSON payload of a method that is an rpc becomes Protobuf's binary form, and the reply
// becomes JSON. The JSON payload of a message that a client sends becomes the binary form, too. All
// other calls and messages pass as they are. [Message] returns an event as a message of a streaming rpc,
// and Host puts such messages in JSON among the other events of an actor.
package transcode
