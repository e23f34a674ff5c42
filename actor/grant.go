package actor

// HTTPGrant is a host that the guests of an app may send requests to.
type HTTPGrant struct {
	// Host is a host rule: abi/SPEC.md section 3.
	Host string
	// Private lets requests go to addresses that are not public as well.
	Private bool
}
