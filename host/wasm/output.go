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
	// maxTail is how much of the newest output is kept to explain a trap.
	maxTail = 4 << 10

	levelInfo  = 0
	levelWarn  = 4
	levelError = 8
)

// output is what a guest prints and logs. During a turn each line goes to the
// turn's log; the newest of it is kept in any case, since the runtimes of
// languages print why they panic before they trap.
type output struct {
	emit           func(level int32, text string) // nil outside turns
	stdout, stderr lineWriter
	tail           []byte
	lines, bytes   int
}

func (o *output) init() {
	o.stdout = lineWriter{out: o, level: levelInfo}
	o.stderr = lineWriter{out: o, level: levelWarn}
}

// begin starts a turn.
func (o *output) begin(emit func(level int32, text string)) {
	o.emit, o.lines, o.bytes = emit, 0, 0
	o.tail = o.tail[:0]
}

// end finishes lines without an end, and forgets the turn.
func (o *output) end() {
	o.stdout.flush()
	o.stderr.flush()
	o.emit = nil
}

func (o *output) log(level int32, text string) {
	if level >= levelError {
		o.remember([]byte(text + "\n"))
	}
	o.line(level, text)
}

func (o *output) line(level int32, text string) {
	if o.emit == nil || o.lines > maxTurnLines {
		return
	}
	o.lines++
	o.bytes += len(text)
	if o.lines > maxTurnLines || o.bytes > maxTurnOutput {
		o.lines = maxTurnLines + 1
		o.emit(levelWarn, "the turn logged more than 1000 lines or 256 KiB; the rest of it is dropped")
		return
	}
	o.emit(level, text)
}

// remember keeps the newest maxTail bytes of text, give or take the last piece.
func (o *output) remember(text []byte) {
	if len(text) > maxTail {
		text = text[:maxTail] // a panic's reason stands first, its goroutines after it
	}
	if over := len(o.tail) + len(text) - 2*maxTail; over > 0 {
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
	o.tail = append(o.tail, text...)
}

// reason extracts from the newest output why the guest gave up, empty if it did
// not say.
func (o *output) reason() string {
	text := cleanText(o.tail)
	if o.stdout.level == levelInfo { // lines not yet ended count as well
		text += cleanText(o.stdout.part) + cleanText(o.stderr.part)
	}
	for _, mark := range []string{"panic: ", "fatal error: ", "panicked at "} {
		at := strings.LastIndex(text, mark)
		if mark == "panic: " { // the first: a panic in a panic prints both
			at = strings.Index(text, mark)
		}
		if at < 0 {
			continue
		}
		text = text[at:]
		for _, stop := range []string{"\n\n", "\ngoroutine "} {
			text, _, _ = strings.Cut(text, stop)
		}
		return shorten(strings.TrimSpace(text))
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
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
