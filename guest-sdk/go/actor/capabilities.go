package actor

import "github.com/greenroom-run/greenroom/abi"

// Capabilities declare what the type uses beyond its own state, through packages
// actor/http and actor/config. Whoever runs the app grants it or not; what is not
// declared here the type cannot use at all.
type Capabilities struct {
	// HTTP are the hosts that the type sends requests to: "api.example.com",
	// "*.example.com", "*" for every host; "api.example.com:8443", and
	// "http://api.example.com" for requests without TLS.
	HTTP []string
	// Config are the names of the app's configuration values that it reads.
	Config []string
	// Secrets are the names of the app's secrets that it reads.
	Secrets []string
}

func (c Capabilities) addTo(t *actorType) {
	t.spec.Capabilities = abi.Capabilities{HTTP: c.HTTP, Config: c.Config, Secrets: c.Secrets}
}
