package turn

import (
	"strings"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/actor"
)

// maxTrapText is how much of a trap's message and of its stack is kept, in bytes.
const maxTrapText = 16 << 10

// cut shortens text to at most n bytes, between two characters, and makes it
// UTF-8: it goes into protobuf strings and logs.
func cut(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// Log is one line that a guest logged.
type Log struct {
	Key          actor.Key
	Method       string
	InvocationID string
	Trace        *actor.Trace // of the call; nil: none
	// Run is which run of the turn logged it, from 1 on. A turn whose commit was
	// refused runs again, and what its earlier runs logged has not happened.
	Run   int
	Level int32 // as in slog
	Text  string
}
