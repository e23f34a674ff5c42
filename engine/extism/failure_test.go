package extism

import (
	"testing"
	"time"
)

// A plug-in says how long to wait as a guest of the native ABI does.
func TestDelayOfAFailure(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`{"retryable":true,"retry_after_ms":1500}`: 1500 * time.Millisecond,
		`{"retryable":true}`:                       0,
		`{"retry_after_ms":1500}`:                  0,
	} {
		e, err := decodeFailure([]byte(text))
		if err != nil || e.RetryAfter != want {
			t.Errorf("%s: %+v, %v; want %v", text, e, err, want)
		}
	}
	if _, err := decodeFailure([]byte(`{"retryable":true,"retry_after_ms":-1}`)); err == nil {
		t.Error("a delay below zero was taken")
	}
}
