package extism

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// FaultCapability is a plug-in that imports what none of its types declares.
const FaultCapability = "undeclared_capability"

// checkCapabilities finds imports of Greenroom's own capability functions that no
// type declares. Extism's own pass: PDKs import them whether a plug-in calls them
// or not, and without a declaration they give nothing.
func checkCapabilities(m *binary.Module, spec *abi.Manifest, f *faults) {
	var config, secrets bool
	for _, t := range spec.Types {
		config = config || len(t.Capabilities.Config) > 0
		secrets = secrets || len(t.Capabilities.Secrets) > 0
	}
	for _, imp := range m.Imports {
		if imp.Module != userModule {
			continue
		}
		switch {
		case imp.Name == "greenroom_config_get" && !config:
			f.Add(FaultCapability, "imports %q, and no type of its manifest declares the capability \"config\": name the values in \"capabilities\": {\"config\": […]}", imp.Module+"."+imp.Name)
		case imp.Name == "greenroom_secret_get" && !secrets:
			f.Add(FaultCapability, "imports %q, and no type of its manifest declares the capability \"secrets\": name them in \"capabilities\": {\"secrets\": […]}", imp.Module+"."+imp.Name)
		}
	}
}

// configGet is Extism's config_get: what is not set, or not declared, is not there.
func configGet(c *call, s []uint64) {
	if c.instance.turn == nil {
		s[0] = 0
		return
	}
	value, code := c.turn().calls.ConfigGet(c.bytes(s[0]))
	if code == abi.CodeNotFound || code == abi.CodeDenied {
		s[0] = 0
		return
	}
	c.refuse(code)
	s[0] = c.block(value)
}

func ownConfigGet(c *call, s []uint64) {
	name := c.copied(s[0])
	value, code := c.turn().calls.ConfigGet(name)
	s[0] = c.given(value, code)
}

func ownSecretGet(c *call, s []uint64) {
	name := c.copied(s[0])
	value, code := c.turn().calls.SecretGet(name)
	s[0] = c.given(value, code)
}

func (c *call) given(value []byte, code abi.Code) uint64 {
	if code == abi.CodeNotFound {
		return 0
	}
	c.refuse(code)
	return c.block(value)
}

// httpRequest is Extism's http_request, sent by Greenroom's own rules.
func httpRequest(c *call, s []uint64) {
	t := c.turn()
	t.answer = abi.HTTPResponse{}
	var in struct {
		URL     string            `json:"url"`
		Method  string            `json:"method"`
		Headers map[string]string `json:"headers"`
	}
	text := c.copied(s[0])
	body := bytes.Clone(c.bytes(s[1]))
	if err := json.Unmarshal(text, &in); err != nil {
		panic(&actor.GuestError{Status: statusInvalidArgument, Code: "http_" + abi.HTTPInvalid, Message: "http_request was given a request that is not Extism's JSON"})
	}
	r := abi.HTTPRequest{Method: strings.ToUpper(in.Method), URL: in.URL, Body: body}
	for _, name := range slices.Sorted(maps.Keys(in.Headers)) {
		r.Headers = append(r.Headers, abi.Header{Name: name, Value: in.Headers[name]})
	}
	answer, err := t.calls.HTTP(&r)
	if err != nil {
		panic(&confine.Stop{Err: err})
	}
	if answer.Status == 0 {
		panic(&actor.GuestError{Status: httpStatus(answer.Code), Code: "http_" + answer.Code, Message: "HTTP request: " + answer.Message})
	}
	t.answer = answer
	s[0] = c.block(answer.Body)
}

// httpStatus is the status of a request without an answer, as the SDKs have it.
func httpStatus(code string) actor.Status {
	switch code {
	case abi.HTTPDenied:
		return actor.Status(abi.StatusPermissionDenied)
	case abi.HTTPInvalid:
		return statusInvalidArgument
	case abi.HTTPReadOnly, abi.HTTPRedirects:
		return statusFailedPrecondition
	case abi.HTTPTimeout:
		return actor.Status(abi.StatusDeadlineExceeded)
	case abi.HTTPTooLarge:
		return statusResourceExhausted
	}
	return actor.Status(abi.StatusUnavailable)
}

func httpStatusCode(c *call, s []uint64) {
	s[0] = 0
	if c.instance.turn != nil {
		s[0] = uint64(c.instance.turn.answer.Status)
	}
}

// httpHeaders gives the headers of the last answer as a JSON object; of several
// with one name the values are joined, as HTTP has it.
func httpHeaders(c *call, s []uint64) {
	s[0] = 0
	if c.instance.turn == nil || c.instance.turn.answer.Status == 0 {
		return
	}
	headers := make(map[string]string)
	for _, h := range c.instance.turn.answer.Headers {
		if before, ok := headers[h.Name]; ok {
			h.Value = before + ", " + h.Value
		}
		headers[h.Name] = h.Value
	}
	s[0] = c.block(mustJSON(headers))
}
