package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// steering has what a terminal obeys: CSI in 7 and in 8 bits, a bell, a new
// line that passes for ours, and text that turns around.
const steering = "x\x1b[31m\u009b31m\x07\r\nerror: ours?\u202e\u2066\u200e\u2028\ufeff\x7fy"

// fill puts steering text into every text of a message, and bytes that hold it.
func fill(m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if f.IsMap() || depth > 6 {
			continue
		}
		value := func() protoreflect.Value {
			switch f.Kind() {
			case protoreflect.StringKind:
				return protoreflect.ValueOfString(steering)
			case protoreflect.BytesKind:
				return protoreflect.ValueOfBytes([]byte(steering))
			case protoreflect.BoolKind:
				return protoreflect.ValueOfBool(true)
			}
			return f.Default()
		}
		switch {
		case f.IsList() && f.Message() != nil:
			fill(m.Mutable(f).List().AppendMutable().Message(), depth+1)
		case f.IsList():
			m.Mutable(f).List().Append(value())
		case f.Message() != nil:
			fill(m.Mutable(f).Message(), depth+1)
		default:
			m.Set(f, value())
		}
	}
	if page := m.Descriptor().Fields().ByName("next_page_token"); page != nil && depth == 0 {
		m.Set(page, protoreflect.ValueOfString(steering))
	}
}

// hostileServer answers every call with steering text in all places: in the
// message, or, if failing is set, in the error and its detail.
func hostileServer(t *testing.T, failing bool) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service, method, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
		if err != nil { // health
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, steering)
			return
		}
		rpc := found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(method))
		detail := &greenroomv1.ErrorDetail{}
		fill(detail.ProtoReflect(), 0)
		rawDetail, _ := proto.Marshal(detail)
		failure := map[string]any{"code": "aborted", "message": steering, "details": []map[string]string{{
			"type": string(detail.ProtoReflect().Descriptor().FullName()), "value": base64.RawStdEncoding.EncodeToString(rawDetail),
		}}}
		typ, err := protoregistry.GlobalTypes.FindMessageByName(rpc.Output().FullName())
		if err != nil {
			panic(err)
		}
		answer := typ.New()
		fill(answer, 0)
		raw, _ := proto.Marshal(answer.Interface())
		if rpc.IsStreamingServer() {
			w.Header().Set("Content-Type", "application/connect+proto")
			frame := func(flags byte, body []byte) {
				_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(body))), body...))
			}
			end := map[string]any{}
			if failing {
				end["error"] = failure
			} else {
				frame(0, raw)
			}
			text, _ := json.Marshal(end)
			frame(2, text)
			return
		}
		w.Header().Set("Greenroom-Fuel", "12")
		if failing {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(failure)
			return
		}
		w.Header().Set("Content-Type", "application/proto")
		_, _ = w.Write(raw)
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// steersIn returns the first character of out that steers a terminal.
func steersIn(out string) (rune, bool) {
	for _, r := range out {
		if r != '\n' && (steers(r) || r == utf8.RuneError && !strings.ContainsRune(out, '\uFFFD')) {
			return r, true
		}
	}
	return 0, !utf8.ValidString(out)
}

// TestNothingSteersTheTerminal calls every command that shows what a server or a
// guest says, with both formats, against a server that says steering text
// wherever it can.
func TestNothingSteersTheTerminal(t *testing.T) {
	module := t.TempDir() + "/m.wasm"
	if err := os.WriteFile(module, []byte("\x00asm\x01\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := [][]string{
		{"types"},
		{"history", "T"},
		{"rollback", "T"},
		{"actors", "list", "T"},
		{"actors", "get", "T", "a"},
		{"actors", "state", "T", "a"},
		{"actors", "state", "T", "a", "missing"},
		{"actors", "delete", "T", "a", "--yes"},
		{"modules", "list"},
		{"modules", "get", "abcdef"},
		{"modules", "delete", "abcdef", "--yes"},
		{"modules", "upload", module},
		{"deploy", module},
		{"logs"},
		{"events", "T", "a"},
		{"config", "list"},
		{"secrets", "list"},
		{"grants", "list"},
		{"doctor"},
		{"call", "T", "a", "M", "-v"},
	}
	for _, failing := range []bool{false, true} {
		url := hostileServer(t, failing)
		for _, command := range commands {
			for _, format := range []string{"table", "json"} {
				t.Run(fmt.Sprintf("%s/%s/failing=%t", strings.Join(command[:min(2, len(command))], " "), format, failing), func(t *testing.T) {
					var stdout, stderr bytes.Buffer
					args := append([]string{"--server", url, "-o", format}, command...)
					run(t.Context(), args, strings.NewReader(""), &stdout, &stderr, noEnv)
					if stdout.Len()+stderr.Len() == 0 {
						t.Fatal("nothing was printed")
					}
					if strings.Contains(stderr.String(), "does not answer as a Greenroom server does") {
						t.Fatalf("the test's server is not understood: %s", stderr.String())
					}
					out := stdout.String()
					if command[0] == "call" && format == "table" && !failing {
						if out != steering {
							t.Errorf("a payload in a pipe is %q, want it as it came", out)
						}
						out = ""
					}
					for _, text := range []string{out, stderr.String()} {
						if r, bad := steersIn(text); bad {
							t.Errorf("%U is in the output:\n%q", r, text)
						}
						if strings.Contains(text, "\nerror: ours?") {
							t.Errorf("a line of theirs looks like one of ours:\n%s", text)
						}
					}
				})
			}
		}
	}
}

func TestCompletionNeverSteers(t *testing.T) {
	url := hostileServer(t, false)
	for _, args := range [][]string{{"call", ""}, {"call", "T", ""}, {"call", "T", "a", ""}, {"modules", "get", ""}} {
		var stdout, stderr bytes.Buffer
		run(t.Context(), append([]string{"__complete", "--server", url}, args...), strings.NewReader(""), &stdout, &stderr, noEnv)
		if r, bad := steersIn(strings.ReplaceAll(stdout.String(), "\t", " ")); bad {
			t.Errorf("%v: %U is among the completions: %q", args, r, stdout.String())
		}
	}
}

// A terminal shows replies of JSON with escapes, text cleaned, and no binary.
func TestTerminalPayload(t *testing.T) {
	for _, tc := range []struct{ contentType, in, want string }{
		{"application/json", "{\"a\":\"\u009b31m\u202e\"}", "{\n  \"a\": \"\\u009b31m\\u202e\"\n}"},
		{"application/json", "\x1b[2Jno JSON", "\uFFFD[2Jno JSON"},
		{"text/plain", "one\n\ttwo\x1b[2J\n", "one\n    two\uFFFD[2J\n"},
		{"application/json", `"👩‍💻 é"`, `"👩‍💻 é"`},
	} {
		got, ok := terminalPayload([]byte(tc.in), tc.contentType)
		if !ok || string(got) != tc.want {
			t.Errorf("%s %q: %q, %t; want %q", tc.contentType, tc.in, got, ok, tc.want)
		}
	}
	if _, ok := terminalPayload([]byte("x"), "image/png"); ok {
		t.Error("an image is shown on a terminal")
	}
}

// The server's log may be looked at on a terminal, too.
func TestServerLogNeverSteers(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		logger, err := newLogger(&out, format, "info")
		if err != nil {
			t.Fatal(err)
		}
		logger.Warn("guest log", slog.String("text", steering))
		if r, bad := steersIn(out.String()); bad {
			t.Errorf("%s: %U is in %q", format, r, out.String())
		}
	}
}
