package turn

import "github.com/greenroom-run/greenroom/abi"

// noLife says why the functions of an actor's life are refused.
const noLife = "this host cannot spawn or end actors, and has no method sets and services"

// Spawn implements [engine.Calls].
func (t *Turn) Spawn([]byte) (string, abi.Code) { return "", t.refuse(abi.CodeNotReady, noLife) }

// Become implements [engine.Calls].
func (t *Turn) Become([]byte) abi.Code { return t.refuse(abi.CodeNotReady, noLife) }

// PassAway implements [engine.Calls].
func (t *Turn) PassAway() abi.Code { return t.refuse(abi.CodeNotReady, noLife) }

// ServiceClaim implements [engine.Calls].
func (t *Turn) ServiceClaim([]byte) abi.Code { return t.refuse(abi.CodeNotReady, noLife) }

// ServiceRelease implements [engine.Calls].
func (t *Turn) ServiceRelease([]byte) (bool, abi.Code) {
	return false, t.refuse(abi.CodeNotReady, noLife)
}
