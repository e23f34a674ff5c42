package wasm

import (
	"bytes"
	"strings"
)

const (
	// maxTurnLines and maxTurnOutput bound what one turn may log: a guest in a
	// loop must not fill the host's disk.
	maxTurnLines  = 1_000
	maxTurnOutput = 256 << 10
	// maxTail is how much of the newest output is kept to explain a trap, in
	// bytes; of a panic about as much from its beginning.
	maxTail = 4 << 10

	levelInfo  = 0
	levelWarn  = 4
	levelError = 8
)

// output is what a guest prints and logs. During a turn each line goes to the
// turn's log; the newest of it is kept in any case, since the runtimes of
// languages print why they panic before they trap.
type output struct {
	to             logger // nil outside turns
	stdout, stderr lineWriter
	tail           []byte
	lines, bytes   int
}

// logger gets the lines of a turn: its [engine.Calls].
type logger interface {
	Log(level int32, text string)
}

func (o *output) init() {
	o.stdout = lineWriter{out: o, level: levelInfo}
	o.stderr = lineWriter{out: o, level: levelWarn}
}

// begin starts a turn.
func (o *output) begin(to logger) {
	o.stdout.flush()
	o.stderr.flush()
	o.to = to
	o.lines, o.bytes, o.tail = 0, 0, o.tail[:0]
}

// end finishes lines without an end, and forgets the turn.
func (o *output) end() {
	o.stdout.flush()
	o.stderr.flush()
	o.to = nil
}

func (o *output) log(level int32, text string) {
	if level >= levelError {
		o.remember([]byte(text + "\n"))
	}
	o.line(level, text)
}

func (o *output) line(level int32, text string) {
	if o.to == nil || o.lines > maxTurnLines {
		return
	}
	o.lines++
	o.bytes += len(text)
	if o.lines > maxTurnLines || o.bytes > maxTurnOutput {
		o.lines = maxTurnLines + 1
		o.to.Log(levelWarn, "the turn logged more than 1000 lines or 256 KiB; the rest of it is dropped")
		return
	}
	o.to.Log(level, text)
}

// remember keeps the newest of what was printed, up to the beginning of a panic:
// what follows that is goroutines, which would push the reason out.
func (o *output) remember(text []byte) {
	if len(o.tail)+len(text) > maxTail {
		if at := reasonAt(o.tail); at >= 0 {
			text = text[:min(len(text), max(0, maxTail+at-len(o.tail)))]
		} else if keep := maxTail / 2; len(o.tail) > keep {
			o.tail = append(o.tail[:0], o.tail[len(o.tail)-keep:]...)
		}
	}
	o.tail = append(o.tail, text[:min(len(text), maxTail)]...)
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

// reason extracts from the newest output why the guest gave up, empty if it did
// not say.
func (o *output) reason() string {
	if at := reasonAt(o.tail); at >= 0 {
		text := cleanText(o.tail[at:])
		for _, stop := range []string{"\n\n", "\ngoroutine "} {
			text, _, _ = strings.Cut(text, stop)
		}
		return shorten(strings.TrimSpace(text))
	}
	lines := strings.Split(strings.TrimSpace(cleanText(o.tail)), "\n")
	return shorten(strings.Join(lines[max(0, len(lines)-5):], "\n"))
}

func shorten(s string) string {
	const most = 2 << 10
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// lineWriter cuts what a guest writes to a file descriptor into lines.
type lineWriter struct {
	out   *output
	level int32
	part  []byte // a line without its end so far
}

// Write implements io.Writer; it never fails, so that printing never changes
// what a guest does.
func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	w.out.remember(p)
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		w.part = append(w.part, line[:min(len(line), maxLogText-len(w.part))]...)
		if ended || len(w.part) == maxLogText {
			w.flush()
		}
		p = rest
	}
	return n, nil
}

func (w *lineWriter) flush() {
	if len(w.part) > 0 {
		w.out.line(w.level, cleanText(w.part))
		w.part = w.part[:0]
	}
}
