package failure

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// WireFailure is an error in JSON.
type WireFailure struct {
	Code      string `json:"code"` // of Connect
	Message   string `json:"message"`
	Kind      string `json:"kind"`
	Retryable bool   `json:"retryable"`
	// RetryAfterMillis is how long the guest asks to wait.
	RetryAfterMillis uint32 `json:"retryAfterMs,omitempty"`

	App       string     `json:"app,omitempty"`
	ActorType string     `json:"actorType,omitempty"`
	ActorID   string     `json:"actorId,omitempty"`
	Method    string     `json:"method,omitempty"`
	Guest     *wireGuest `json:"guest,omitempty"`
	Stack     string     `json:"stack,omitempty"`
	RequestID string     `json:"requestId,omitempty"`
}

// wireGuest is what a guest said of its error. Detail is JSON where the guest
// says that it is, and base64 in a string otherwise.
type wireGuest struct {
	Code        string `json:"code,omitempty"`
	ContentType string `json:"contentType,omitempty"`
	Detail      any    `json:"detail,omitempty"`
}

// WriteHTTP answers a request of the plain HTTP form with a failure.
func WriteHTTP(w http.ResponseWriter, f Failure, requestID string) {
	d := f.Detail
	wire := WireFailure{
		Code: f.Code.String(), Message: f.Message, Kind: d.GetKind(), Retryable: d.GetRetryable(), RetryAfterMillis: d.GetRetryAfterMs(),
		App: d.GetApp(), ActorType: d.GetActorType(), ActorID: d.GetActorId(), Method: d.GetMethod(),
		Guest: newWireGuest(d.GetGuest()), Stack: d.GetStack(), RequestID: requestID,
	}
	body, err := json.Marshal(wire)
	if err != nil {
		wire.Guest = nil // the only part that could fail; checked JSON does not
		body, _ = json.Marshal(wire)
	}
	h := w.Header()
	h.Set("Content-Type", actor.ContentTypeJSON)
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	h.Set("Cache-Control", "no-store")
	if seconds := retryAfterOf(d); seconds != "" {
		h.Set(headerRetryAfter, seconds)
	}
	w.WriteHeader(f.Status)
	_, _ = w.Write(append(body, '\n')) // fails only with the connection
}

func newWireGuest(g *greenroomv1.GuestErrorDetail) *wireGuest {
	if g == nil {
		return nil
	}
	wire := &wireGuest{Code: g.GetCode(), ContentType: g.GetContentType()}
	if detail := g.GetDetail(); len(detail) > 0 {
		isJSON := wire.ContentType == "" || wire.ContentType == actor.ContentTypeJSON
		if isJSON && json.Valid(detail) {
			wire.Detail = json.RawMessage(detail)
		} else {
			wire.Detail = detail
		}
	}
	return wire
}
