// Package events is what rpc and dapr share about subscriptions to the events of actors: who may
// have how many of them, where one begins, and when it ends.
package events
