// Package events serves subscriptions to the events of actors for rpc, with the streams of typed
// actors, and dapr: how many an app may have, where one begins, and when it ends.
package events
