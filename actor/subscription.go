package actor

// SubscriptionType is the type in the keys of reminders that are for no actor: their IDs
// are the names of subscriptions. It is not deployed.
const SubscriptionType = "greenroom.subscription"

// SubscriptionKey returns the key of the reminders of an app that wait for a subscriber of
// a name.
func SubscriptionKey(app, name string) Key {
	return Key{App: app, Type: SubscriptionType, ID: name}
}

// IsSubscription reports whether k is of a subscription.
func (k Key) IsSubscription() bool { return k.Type == SubscriptionType }
