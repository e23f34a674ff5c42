package edge

import (
	"net/http"
	"strconv"

	"github.com/greenroom-run/greenroom/actor"
)

// Headers beside those of the protocols.
const (
	HeaderVersion = "Greenroom-Version"
	HeaderActor   = "Greenroom-Actor" // of calls of the Protobuf services of guests: the actor's ID
	HeaderApp     = "Greenroom-App"   // of the same, and of reflection: the app, unless it is the default one
	// HeaderEvents is where a stream of such a service begins, and HeaderPosition in its answer the
	// position where it begins, and as a trailer the last one that it passed.
	HeaderEvents      = "Greenroom-Events"
	HeaderPosition    = "Greenroom-Position"
	headerFuel        = "Greenroom-Fuel" // of every unary call's answer, in every protocol
	headerHost        = "Greenroom-Host" // of the answers to calls that were passed on, in every protocol
	HeaderConsistency = "Greenroom-Consistency"
	HeaderTimeout     = "Connect-Timeout-Ms" // as Connect has it
)

// Consistency returns how fresh a read is to be.
func Consistency(h http.Header) (c actor.Consistency, err error) {
	switch v := h.Get(HeaderConsistency); v {
	case "":
	case "strong":
		return actor.ConsistencyStrong, nil
	default:
		err = &actor.ArgumentError{Field: HeaderConsistency, Problem: "is " + strconv.Quote(v) + "; write strong, or leave it out"}
	}
	return c, err
}

// SetFuel says what fuel the turn used that was answered with reply; 0 if the
// reply was recorded by an earlier one.
func SetFuel(h http.Header, reply actor.Reply) {
	h[headerFuel] = []string{strconv.FormatUint(reply.Fuel, 10)}
}

// SetHost says which server holds the actor, if the call was passed on to it.
func SetHost(h http.Header, reply actor.Reply) {
	if reply.Host != "" {
		h[headerHost] = []string{reply.Host}
	}
}
