// Package typed reads the Protobuf service of an actor type from its manifest: it judges the
// descriptor, finds the rpcs and the actor's ID in their requests, and translates between
// Protobuf's JSON and its binary form.
//
// A descriptor comes from whoever may upload a module, and messages from whoever may call it.
// [Parse] bounds what it makes of a descriptor, and refuses one that declares the messages of
// google.protobuf, which the JSON form treats by their names. What a message takes in memory may
// be many times its bytes: [Method.RequestWeight] and [Method.ResponseWeight] estimate it before
// it is taken.
package typed
