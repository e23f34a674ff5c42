package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The values of --output.
const (
	outputTable = "table"
	outputJSON  = "json"
	outputCSV   = "csv" // of commands that have it as an annotation
)

// console is what a command line reads and writes, and how.
type console struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string

	output  string // "table", "json" or "csv"
	noColor bool
}

func (c *console) wantsJSON() bool { return c.output == outputJSON }

// isTerminal reports whether a person looks at w (or types into it).
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// style is an SGR colour.
type style string

const (
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// painted is text of ours, clean and perhaps coloured.
type painted string

// paint cleans text as [printable] does and colours it for w, if w is a terminal
// and nobody objects.
func (c *console) paint(w io.Writer, s style, text string) painted {
	text = printable(text)
	if c.noColor || c.getenv("NO_COLOR") != "" || c.getenv("TERM") == "dumb" || !isTerminal(w) {
		return painted(text)
	}
	return painted("\x1b[" + string(s) + "m" + text + "\x1b[0m")
}

// printf writes for people. Strings and errors among args may come from guests
// and servers and are cleaned; format and what is painted are ours.
func (c *console) printf(w io.Writer, format string, args ...any) {
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			args[i] = printable(v)
		case error:
			args[i] = printableLines(v.Error())
		}
	}
	fmt.Fprintf(w, format, args...)
}

// table writes aligned columns. Colours would count as width: it has none.
func (c *console) table(header []string, rows [][]string) {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		cells := make([]string, max(len(row), len(header))) // a shorter row would end the columns
		for i, cell := range row {
			cells[i] = printable(cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	w.Flush()
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(c.stdout, strings.TrimRight(line, " \n")) // empty cells at the end
	}
}

// facts writes a list of names with values, one a line.
func (c *console) facts(w io.Writer, indent string, pairs ...string) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(tw, "%s%s\t%s\n", indent, pairs[i], printable(pairs[i+1]))
		}
	}
	tw.Flush()
}

// printable replaces what would break a line or steer the terminal: what guests
// and other users named is not trusted.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if steers(r) || r == utf8.RuneError {
			return '\uFFFD'
		}
		return r
	}, s)
}

// printableLines is printable for a text that may have lines and tabs. Lines but
// the first are indented, so that none passes for one of ours.
func printableLines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, line := range lines {
		lines[i] = printable(strings.ReplaceAll(line, "\t", "    "))
	}
	return strings.Join(lines, "\n  ")
}

// steers reports whether a terminal, or the eye, takes r for more than a
// character: control characters of both sets, line and paragraph separators, and
// invisible ones, among them those that turn the direction of text. Joiners stay:
// emoji and some scripts are written with them.
func steers(r rune) bool {
	const nonJoiner, joiner = '\u200C', '\u200D'
	return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) ||
		unicode.Is(unicode.Cf, r) && r != joiner && r != nonJoiner
}

// escapeJSON writes what would steer a terminal in a JSON text as the escapes
// that mean the same to a program. Control characters of ASCII are not in
// strings of JSON.
func escapeJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII && steers(r) || r == 0x7f || r == utf8.RuneError }) {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for _, r := range string(text) {
		switch {
		case r > unicode.MaxASCII && steers(r) || r == 0x7f || r == utf8.RuneError:
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// escapedJSON writes each JSON text as [escapeJSON] has it: slog escapes less.
type escapedJSON struct{ w io.Writer }

func (e escapedJSON) Write(p []byte) (int, error) {
	if _, err := e.w.Write(escapeJSON(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// writeJSON writes v indented, without escaping characters for HTML.
func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	_, err := w.Write(escapeJSON(b.Bytes()))
	return err
}

// messageJSON encodes m with the names of the API's .proto files, all fields
// present. As everywhere in JSON protobuf, 64-bit numbers are strings.
func messageJSON(m proto.Message) (json.RawMessage, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	return raw, nil
}

// messagesJSON encodes a list of messages, never null.
func messagesJSON[M proto.Message](ms []M) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, 0, len(ms))
	for _, m := range ms {
		raw, err := messageJSON(m)
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
	return out, nil
}

// writeMessage writes m for -o json.
func (c *console) writeMessage(m proto.Message) error {
	raw, err := messageJSON(m)
	if err != nil {
		return err
	}
	return writeJSON(c.stdout, raw)
}

// list shows a page of a listing, and how to get the next one; where it has nothing, what
// none and its arguments say.
func (c *console) list(cmd *cobra.Command, l listing, header []string, rows [][]string, none string, args ...any) error {
	switch {
	case c.wantsJSON():
		return c.writeMessage(l)
	case len(rows) == 0:
		c.printf(c.stderr, none+"\n", args...)
		return nil
	}
	c.table(header, rows)
	if next := l.GetNextPageToken(); next != "" {
		c.printf(c.stderr, "there are more: add --page-token %s for the next page, or --all (see `%s --help`)\n", next, cmd.CommandPath())
	}
	return nil
}

// done reports the end of a command without a result.
func (c *console) done(message string, args ...any) error {
	if c.wantsJSON() {
		return writeJSON(c.stdout, struct{}{})
	}
	c.printf(c.stderr, message+"\n", args...)
	return nil
}

// confirm asks before something is lost. Where nobody can answer, only --yes
// is a yes.
func (c *console) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(c.stdin) || !isTerminal(c.stderr) {
		return usagef("this needs a confirmation, and there is no terminal to ask on; add --yes")
	}
	c.printf(c.stderr, "%s [y/N] ", question)
	answer, err := interruptible(ctx, func() (string, error) { return bufio.NewReader(c.stdin).ReadString('\n') })
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was deleted")
}

func (c *console) warnings(ws []string) {
	for _, w := range ws {
		c.printf(c.stderr, "%s %s\n", c.paint(c.stderr, yellow, "warning:"), w)
	}
}

// writeLine prints m as one line of JSON, for streams.
func (c *console) writeLine(m proto.Message) error {
	raw, err := messageJSON(m)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	b.WriteByte('\n')
	_, err = c.stdout.Write(escapeJSON(b.Bytes()))
	return err
}

// indentJSON returns a JSON text indented; ok is false if it is none.
func indentJSON(text []byte) (indented []byte, ok bool) {
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil {
		return nil, false
	}
	return escapeJSON(b.Bytes()), true
}

// size writes bytes for people: 1.8 MiB.
func size(n int64) string {
	const units = "KMGT"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, u := float64(n)/1024, 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	return fmt.Sprintf("%.1f %ciB", f, units[u])
}

// when writes a time for people, in their zone.
func when(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format("2006-01-02 15:04:05Z07:00")
}

func short(digest string) string {
	if len(digest) > 12 {
		return digest[:12]
	}
	return digest
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// interruptible returns read's result, or ctx's error if that ends first: a
// person who gives up typing is not waited for.
func interruptible[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := read()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}
