// Package transcode has the Protobuf services of the actor types that are served, and gives their
// methods to callers who write JSON. [Services] keeps the services that were read. [Host] runs
// calls: a JSON payload of a method that is an rpc becomes Protobuf's binary form, and the reply
// becomes JSON; so do payloads of messages that clients send. All other calls and messages pass as
// they are. [Message] makes messages of the events that streaming rpcs send.
package transcode
