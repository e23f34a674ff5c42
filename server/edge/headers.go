package edge

import (
	"net/http"
	"strconv"

	"github.com/greenroom-run/greenroom/actor"
)

// Headers of the plain HTTP form.
const (
	HeaderVersion     = "Greenroom-Version"
	headerFuel        = "Greenroom-Fuel" // of every unary call's answer, in every protocol
	headerHost        = "Greenroom-Host" // of the answers to calls that were passed on, in every protocol
	HeaderConsistency = "Greenroom-Consistency"
	HeaderTimeout     = "Connect-Timeout-Ms" // as Connect has it
)

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
