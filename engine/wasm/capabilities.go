package wasm

import (
	"bytes"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// FaultCapability is a module that imports what none of its types declares.
const FaultCapability = "undeclared_capability"

// capability is what a module must declare to import some of the host functions.
type capability struct {
	name     string
	imports  []string
	declared func(abi.Capabilities) bool
}

var capabilities = []capability{
	{"http", []string{abi.FuncHTTPRequest, abi.FuncHTTPResponse}, func(c abi.Capabilities) bool { return len(c.HTTP) > 0 }},
	{"config", []string{abi.FuncConfigGet}, func(c abi.Capabilities) bool { return len(c.Config) > 0 }},
	{"secrets", []string{abi.FuncSecretGet}, func(c abi.Capabilities) bool { return len(c.Secrets) > 0 }},
}

// checkCapabilities finds imports of capabilities that no type declares, so that a
// manifest says all that a module can do.
func checkCapabilities(m *binary.Module, spec *abi.Manifest, f *faults) {
	for _, c := range capabilities {
		declared := false
		for _, t := range spec.Types {
			declared = declared || c.declared(t.Capabilities)
		}
		if declared {
			continue
		}
		for _, imp := range m.Imports {
			for _, name := range c.imports {
				if imp.Module == abi.HostModule && imp.Name == name {
					f.Add(FaultCapability, "imports \"%s.%s\", and no type of its manifest declares the capability %q: declare what it uses (actor.Capabilities in Go, capabilities in Rust), or take the call out", imp.Module, name, c.name)
				}
			}
		}
	}
}

func configGet(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	name, buf := g.at(s[0], s[1]), g.buffer(s[2], s[3])
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	value, code := i.calls.ConfigGet(name)
	return g.value(buf, value, code)
}

func secretGet(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	name, buf := g.at(s[0], s[1]), g.buffer(s[2], s[3])
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	value, code := i.calls.SecretGet(name)
	return g.value(buf, value, code)
}

// httpRequest keeps the answer until the guest has a buffer for it: asking twice
// must not send twice.
func httpRequest(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	// A copy: connections outlive the call, and what they keep must not alias the
	// guest's memory.
	frame := bytes.Clone(g.at(s[0], s[1]))
	i.response = nil
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	var r abi.HTTPRequest
	if abi.DecodeHTTPRequest(frame, &r) != nil {
		return 0, abi.CodeInvalid
	}
	var answer abi.HTTPResponse
	var err error
	i.wait(func() { answer, err = i.calls.HTTP(&r) })
	if err != nil {
		panic(&confine.Stop{Err: err})
	}
	i.response = abi.AppendHTTPResponse(nil, &answer)
	i.work += uint64(len(i.response)) / byteUnits
	return uint64(uint32(len(i.response))), 0
}

func httpResponse(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	return g.kept(g.buffer(s[0], s[1]), i.response)
}
