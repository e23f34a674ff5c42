package extism

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// input is the payload that a reminder, a timer or a call gives to its method.
type input struct {
	ContentType string `json:"content_type,omitempty"`
	// Input is any JSON; of another content type, base64 in a string.
	Input json.RawMessage `json:"input,omitempty"`
}

func (in *input) decode() ([]byte, error) {
	if actor.IsJSON(in.ContentType) || len(in.Input) == 0 {
		return in.Input, nil
	}
	var text string
	if json.Unmarshal(in.Input, &text) != nil {
		return nil, fmt.Errorf("its input is not a string; give what has the content type %q in base64", in.ContentType)
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("its input has the content type %q, and is not base64: %w", in.ContentType, err)
	}
	return data, nil
}

func encodeInput(contentType string, data []byte) input {
	in := input{ContentType: contentType}
	switch {
	case len(data) == 0:
	case actor.IsJSON(contentType) && json.Valid(data):
		in.Input = data
	default:
		in.Input = mustJSON(data) // base64
	}
	return in
}

// decodeStrictly reads JSON that has no members but those of v.
func decodeStrictly(text []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// span is a duration as Go writes it: "1h30m".
type span time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = span(d)
	return err
}

// MarshalText implements [encoding.TextMarshaler].
func (s span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// statusNames are the statuses of abi/SPEC.md section 2 by number.
var statusNames = [...]string{
	1: "canceled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists",
	"permission_denied", "resource_exhausted", "failed_precondition", "aborted", "out_of_range",
	"unimplemented", "internal", "unavailable", "data_loss", "unauthenticated",
}

const (
	statusUnknown            actor.Status = 2
	statusInvalidArgument    actor.Status = 3
	statusResourceExhausted  actor.Status = 8
	statusFailedPrecondition actor.Status = 9
)

// mustJSON encodes what cannot fail to be.
func mustJSON(v any) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

func nanoOf(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixNano()
}

func timeOf(nano int64) *time.Time {
	if nano == 0 {
		return nil
	}
	t := time.Unix(0, nano).UTC()
	return &t
}
