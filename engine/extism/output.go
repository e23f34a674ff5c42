package extism

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const (
	// maxTurnLines and maxTurnOutput bound what one turn may log, as in
	// engine/wasm: a plug-in in a loop must not fill the host's disk.
	maxTurnLines  = 1_000
	maxTurnOutput = 256 << 10
	// maxLogText bounds one line, in bytes.
	maxLogText = 8 << 10
	// maxTail is how much of the newest output to stderr, and of errors logged,
	// is kept to explain a trap.
	maxTail = 2 << 10

	levelDebug = -4
	levelInfo  = 0
	levelWarn  = 4
	levelError = 8
)

// output is what a plug-in prints and logs. During a turn each line goes to the
// turn's log.
type output struct {
	emit           func(level int32, text string) // nil outside turns
	stdout, stderr lineWriter
	tail           []byte
	lines, bytes   int
}

func (o *output) init() {
	o.stdout = lineWriter{out: o, level: levelInfo}
	o.stderr = lineWriter{out: o, level: levelWarn, keep: true}
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

func (o *output) remember(text []byte) {
	o.tail = append(o.tail, text[max(0, len(text)-maxTail):]...)
	if over := len(o.tail) - maxTail; over > 0 {
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
}

// reason is the newest output, which often says why the plug-in gave up; empty if
// there is none.
func (o *output) reason() string {
	lines := strings.Split(strings.TrimSpace(cleanText(o.tail)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// lineWriter cuts what a plug-in writes to a file descriptor into lines.
type lineWriter struct {
	out   *output
	level int32
	keep  bool
	part  []byte // a line without its end so far
}

// Write implements io.Writer; it never fails, so that printing never changes
// what a plug-in does.
func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	if w.keep {
		w.out.remember(p)
	}
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		w.part = append(w.part, head(line, maxLogText-len(w.part))...)
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

// head is at most the first n bytes of b.
func head(b []byte, n int) []byte { return b[:min(len(b), n)] }

// cleanText copies a plug-in's bytes into valid UTF-8.
func cleanText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
