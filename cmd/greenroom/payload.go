package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
)

// readPayload reads what PAYLOAD stands for.
func readPayload(ctx context.Context, c *cli, arg, contentType string) ([]byte, error) {
	var payload []byte
	var err error
	source := "PAYLOAD"
	switch file, isFile := strings.CutPrefix(arg, "@"); {
	case arg == "-":
		source = "standard input"
		payload, err = interruptible(ctx, func() ([]byte, error) { return io.ReadAll(c.stdin) })
	case isFile:
		source = file
		payload, err = os.ReadFile(file)
	default:
		payload = []byte(arg)
	}
	if err != nil {
		return nil, fmt.Errorf("read payload: %w", err)
	}
	if actor.IsJSON(contentType) && len(payload) > 0 {
		if err := checkJSON(payload); err != nil {
			return nil, &actor.ArgumentError{Field: source, Problem: fmt.Sprintf("is not JSON: %v; quote it for your shell, or name another --content-type", err)}
		}
	}
	return payload, nil
}

// checkJSON reports where a text stops being JSON.
func checkJSON(text []byte) error {
	var v json.RawMessage
	err := json.Unmarshal(text, &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("%w at byte %d", err, syntax.Offset)
	}
	return err
}

// writePayload writes a reply: as it came into a file or a pipe, so that nothing
// in it steers it on a terminal.
func writePayload(c *cli, payload []byte, contentType string) error {
	if len(payload) == 0 {
		return nil
	}
	isJSON := actor.IsJSON(contentType)
	if isTerminal(c.stdout) {
		shown, ok := terminalPayload(payload, contentType)
		if !ok {
			return fmt.Errorf("the reply is %s of type %s, which would upset the terminal; redirect it to a file, or use -o json", size(int64(len(payload))), printable(contentType))
		}
		payload, isJSON = shown, true
	}
	if _, err := c.stdout.Write(payload); err != nil {
		return fmt.Errorf("write reply: %w", err)
	}
	// A JSON text may end in a line feed; nothing else is added to in a pipe.
	if isJSON && !bytes.HasSuffix(payload, []byte("\n")) {
		c.printf(c.stdout, "\n")
	}
	return nil
}

// terminalPayload returns a reply as a terminal may show it; ok is false if it
// is no text.
func terminalPayload(payload []byte, contentType string) (shown []byte, ok bool) {
	isJSON := actor.IsJSON(contentType)
	if isJSON {
		if indented, ok := indentJSON(payload); ok {
			return indented, true
		}
	}
	if !isJSON && !isText(contentType) {
		return nil, false
	}
	lines := strings.Split(string(payload), "\n")
	for i, line := range lines {
		lines[i] = printable(strings.ReplaceAll(line, "\t", "    "))
	}
	return []byte(strings.Join(lines, "\n")), true
}

func isText(contentType string) bool { return strings.HasPrefix(contentType, "text/") }

// shownPayload is a payload as programs get it.
type shownPayload struct {
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 string          `json:"payload_base64,omitempty"` // if it is not JSON
	ContentType   string          `json:"content_type"`
}

func showPayload(payload []byte, contentType string) shownPayload {
	out := shownPayload{ContentType: contentType}
	switch {
	case len(payload) == 0:
	case actor.IsJSON(contentType) && json.Valid(payload):
		out.Payload = payload
	default:
		out.PayloadBase64 = base64.StdEncoding.EncodeToString(payload)
	}
	return out
}
