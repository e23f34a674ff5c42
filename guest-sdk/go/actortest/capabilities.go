package actortest

import (
	"slices"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor/http"
)

func (h *turnHost) capabilities() abi.Capabilities { return h.harness.types[h.ref.Type].Capabilities }

func (h *turnHost) ConfigGet(name string) ([]byte, abi.Code) {
	return given(name, h.capabilities().Config, h.harness.config)
}

func (h *turnHost) SecretGet(name string) ([]byte, abi.Code) {
	return given(name, h.capabilities().Secrets, h.harness.secrets)
}

func given(name string, declared []string, values map[string]string) ([]byte, abi.Code) {
	if !slices.Contains(declared, name) {
		return nil, abi.CodeDenied
	}
	value, ok := values[name]
	if !ok {
		return nil, abi.CodeNotFound
	}
	return []byte(value), 0
}

func (h *turnHost) HTTPRequest(frame []byte) ([]byte, abi.Code) {
	var r abi.HTTPRequest
	if err := abi.DecodeHTTPRequest(frame, &r); err != nil {
		return nil, abi.CodeInvalid
	}
	answer := h.answer(&r)
	return abi.AppendHTTPResponse(nil, &answer), 0
}

func (h *turnHost) answer(r *abi.HTTPRequest) abi.HTTPResponse {
	if r.Method == "" {
		r.Method = "GET"
	}
	_, target, err := manifest.RequestURL(r.URL)
	switch {
	case err != nil:
		return abi.HTTPResponse{Code: abi.HTTPInvalid, Message: err.Error()}
	case !slices.ContainsFunc(h.capabilities().HTTP, func(text string) bool {
		rule, err := manifest.ParseHostRule(text)
		return err == nil && rule.Matches(target)
	}):
		return abi.HTTPResponse{Code: abi.HTTPDenied, Message: "the type does not declare " + target.String() + "; add it to actor.Capabilities.HTTP"}
	case h.overlay.readOnly && !slices.Contains([]string{"GET", "HEAD"}, r.Method):
		return abi.HTTPResponse{Code: abi.HTTPReadOnly, Message: "a read-only method may send GET and HEAD alone"}
	case h.harness.http == nil:
		return abi.HTTPResponse{Code: abi.HTTPDenied, Message: "the app was not granted " + target.String() + "; in this test, call HandleHTTP"}
	}
	request := http.Request{
		Method: r.Method, URL: r.URL, Body: slices.Clone(r.Body), Timeout: time.Duration(r.TimeoutMillis) * time.Millisecond,
		NoRedirects: r.Flags&abi.FlagNoRedirects != 0,
	}
	for _, header := range r.Headers {
		request.Headers = append(request.Headers, http.Header{Name: strings.ToLower(header.Name), Value: strings.Clone(header.Value)})
	}
	response, err := h.harness.http(request)
	if err != nil {
		return abi.HTTPResponse{Code: abi.HTTPUnreachable, Message: err.Error()}
	}
	answer := abi.HTTPResponse{Status: uint16(response.Status), Body: response.Body}
	for _, header := range response.Headers {
		answer.Headers = append(answer.Headers, abi.Header{Name: strings.ToLower(header.Name), Value: header.Value})
	}
	return answer
}
