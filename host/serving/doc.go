// Package serving says what serves actor types: of each deployment the lane of its turns,
// its methods and its limits, worked out once. It knows neither actors nor calls.
//
//	Deployments  what serves each type now; follows the source of deployments
//	Type         what serves one type from one deployment to the next; immutable
//	Limits       the bounds of a Scope, which a manifest may lower
//	Lane         the way in which a turn has its actor to itself
package serving
