package edge

import (
	"net/http"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
)

// HeaderIdempotencyKey makes a unary call safe to repeat, in every protocol.
const HeaderIdempotencyKey = "Idempotency-Key"

// IdempotencyKey returns the idempotency key of a request; empty if it has none.
// It may be bare, or a string in quotes as draft-ietf-httpapi-idempotency-key-header
// writes it; both forms name the same key.
func IdempotencyKey(h http.Header) (string, error) {
	values := h[HeaderIdempotencyKey]
	switch len(values) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", &actor.ArgumentError{Field: HeaderIdempotencyKey, Problem: "is given more than once; give one"}
	}
	key := values[0]
	if strings.HasPrefix(key, `"`) {
		var ok bool
		if key, ok = unquote(key); !ok {
			return "", &actor.ArgumentError{Field: HeaderIdempotencyKey, Problem: `begins with a quote and is not a string of RFC 8941; write it like "8e03978e", or without quotes`}
		}
	}
	return key, actor.ValidateIdempotencyKey(key)
}

// unquote reads a string of RFC 8941, without looking at its characters.
func unquote(s string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			return b.String(), i == len(s)-1
		case '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}
