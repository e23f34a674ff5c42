package guest

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const (
	// MaxLine bounds one line of what a guest prints or logs, in bytes.
	MaxLine = 8 << 10
	// MaxLines bounds how many lines one turn may log: a guest in a loop must not fill
	// the host's disk.
	MaxLines = 1_000
	// MaxBytes bounds their bytes.
	MaxBytes = 256 << 10
	// maxTail is how much of the newest output is kept to explain a trap, in
	// bytes; of a panic about as much from its beginning.
	maxTail = 4 << 10
	// maxReason bounds the explanation, in bytes.
	maxReason = 2 << 10
)

// The levels of a turn's log, as log/slog numbers them.
const (
	LevelDebug = -4
	LevelInfo  = 0
	LevelWarn  = 4
	LevelError = 8
)

// Logger gets the lines of a turn: its [engine.Calls].
type Logger interface {
	Log(level int32, text string)
}

// Output is what a guest prints and logs. During a turn each line goes to the
// turn's log; the newest of it is kept in any case, since the runtimes of
// languages print why they panic before they trap. The zero value is ready outside
// of turns. One goroutine uses it.
type Output struct {
	to             Logger // nil outside turns
	stdout, stderr []byte // of each a line without its end so far
	tail           []byte
	lines, bytes   int
	// dumped are lines of a runtime that ends the guest: the trap says the same,
	// and they are logged only if no trap comes. dumping is true once the lines began.
	dumped  []string
	dumping bool
}

// Begin starts a turn, whose lines go to a Logger, or a run outside of turns, whose
// lines are dropped: nil.
func (o *Output) Begin(to Logger) {
	o.flush()
	o.to = to
	o.lines, o.bytes, o.tail = 0, 0, o.tail[:0]
	o.dumped, o.dumping = nil, false
}

// End finishes lines without an end, and forgets the turn.
func (o *Output) End() {
	o.flush()
	for _, text := range o.dumped { // the guest lives on
		o.to.Log(LevelWarn, text)
	}
	o.dumped, o.dumping = nil, false
	o.to = nil
}

// Dump returns what the guest's runtime said when it gave up. The lines of a Go
// guest's end are not logged then.
func (o *Output) Dump() string {
	o.flush()
	o.dumped = nil
	if at := reasonAt(o.tail); at >= 0 {
		return Text(o.tail[at:])
	}
	return ""
}

// withhold reports whether a line of standard error belongs to the end of a Go
// guest, and keeps it, within the bounds of a turn's log.
func (o *Output) withhold(text string) bool {
	for _, mark := range []string{"panic: ", "fatal error: ", "runtime: out of memory"} {
		o.dumping = o.dumping || strings.HasPrefix(text, mark)
	}
	if o.dumping && o.to != nil && o.lines < MaxLines && o.bytes+len(text) <= MaxBytes {
		o.lines++
		o.bytes += len(text)
		o.dumped = append(o.dumped, text)
	}
	return o.dumping
}

func (o *Output) flush() {
	o.emit(&o.stdout, LevelInfo)
	o.emit(&o.stderr, LevelWarn)
}

// Log takes what a guest logs, and keeps the first MaxLine bytes of it. An error may
// be the reason of a trap that follows.
func (o *Output) Log(level int32, text []byte) {
	clean := Text(text[:min(len(text), MaxLine)])
	if level >= LevelError {
		o.remember([]byte(clean + "\n"))
	}
	o.log(level, clean)
}

// Print takes what a guest writes to a file descriptor: 1 is its standard output,
// any other one its standard error. It cuts it into lines.
func (o *Output) Print(descriptor uint32, p []byte) {
	line, level := &o.stdout, int32(LevelInfo)
	if descriptor != 1 {
		line, level = &o.stderr, LevelWarn
	}
	o.remember(p)
	for len(p) > 0 {
		text, rest, ended := bytes.Cut(p, []byte{'\n'})
		*line = append(*line, text[:min(len(text), MaxLine-len(*line))]...)
		if ended || len(*line) == MaxLine {
			o.emit(line, level)
		}
		p = rest
	}
}

func (o *Output) emit(line *[]byte, level int32) {
	if len(*line) > 0 {
		if text := Text(*line); line != &o.stderr || !o.withhold(text) {
			o.log(level, text)
		}
		*line = (*line)[:0]
	}
}

func (o *Output) log(level int32, text string) {
	if o.to == nil || o.lines > MaxLines {
		return
	}
	o.lines++
	o.bytes += len(text)
	if o.lines > MaxLines || o.bytes > MaxBytes {
		o.lines = MaxLines + 1
		o.to.Log(LevelWarn, "the turn logged more than 1000 lines or 256 KiB; the rest of it is dropped")
		return
	}
	o.to.Log(level, text)
}

// remember keeps the newest of what was printed, up to the beginning of a panic:
// what follows that is goroutines, which would push the reason out.
func (o *Output) remember(text []byte) {
	if len(o.tail)+len(text) > maxTail {
		if at := reasonAt(o.tail); at >= 0 {
			text = text[:min(len(text), max(0, maxTail+at-len(o.tail)))]
		} else if keep := maxTail / 2; len(o.tail) > keep {
			o.tail = append(o.tail[:0], o.tail[len(o.tail)-keep:]...)
		}
	}
	o.tail = append(o.tail, text[:min(len(text), maxTail)]...)
}

// Explain returns a trap with what the guest wrote of its end. The text of a panic says all that
// "unreachable", with which a panic ends, does.
func (o *Output) Explain(trap string) string {
	switch reason := o.Reason(); {
	case reason == "":
		return trap
	case trap == "unreachable" && reasonAt(o.tail) >= 0:
		return reason
	default:
		return reason + " (" + trap + ")"
	}
}

// Reason extracts from the newest output why the guest gave up, empty if it did
// not say.
func (o *Output) Reason() string {
	if at := reasonAt(o.tail); at >= 0 {
		text := Text(o.tail[at:])
		for _, stop := range []string{"\n\n", "\ngoroutine "} {
			text, _, _ = strings.Cut(text, stop)
		}
		text, _, _ = strings.Cut(text, "\n[signal ") // says nothing to a guest's author
		return shorten(strings.TrimSpace(text))
	}
	lines := strings.Split(strings.TrimSpace(Text(o.tail)), "\n")
	return shorten(strings.Join(lines[max(0, len(lines)-5):], "\n"))
}

// reasonAt finds where in a guest's output the reason of its end begins; -1 if
// none of the languages we know wrote one.
func reasonAt(text []byte) int {
	at := -1
	for _, mark := range []string{"panic: ", "fatal error: ", "panicked at "} {
		if i := bytes.Index(text, []byte(mark)); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	return at
}

func shorten(s string) string {
	if len(s) > maxReason {
		return strings.ToValidUTF8(s[:maxReason], "") + "…"
	}
	return s
}

// Text copies a guest's bytes into valid UTF-8.
func Text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
