package abi_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/envelope"
	"github.com/greenroom-run/greenroom/abi/manifest"
)

var update = flag.Bool("update", false, "write testdata/vectors from the tables")

// vectorFile is the form of testdata/vectors, described in its README.
type vectorFile[V any] struct {
	Description string `json:"description"`
	Vectors     []V    `json:"vectors"`
}

type frameVector struct {
	Name      string         `json:"name"`
	Hex       string         `json:"hex"`
	Canonical bool           `json:"canonical,omitempty"`
	Refused   string         `json:"refused,omitempty"`
	Turn      *turnValue     `json:"turn,omitempty"`
	Error     *errorValue    `json:"error,omitempty"`
	Keys      *[]string      `json:"keys,omitempty"`
	Entries   *[]entryValue  `json:"entries,omitempty"`
	Request   *requestValue  `json:"request,omitempty"`
	Response  *responseValue `json:"response,omitempty"`
	Reminder  *reminderValue `json:"reminder,omitempty"`
	Message   *messageValue  `json:"message,omitempty"`
	Result    *resultValue   `json:"result,omitempty"`
}

type turnValue struct {
	What         uint8  `json:"what"`
	Flags        uint32 `json:"flags"`
	App          string `json:"app"`
	Type         string `json:"type"`
	ID           string `json:"id"`
	Method       string `json:"method"`
	InvocationID string `json:"invocation_id"`
	TimeUnixNano int64  `json:"time_unix_nano"`
	Revision     uint64 `json:"revision"`
	StoredSchema uint32 `json:"stored_schema"`
	ContentType  string `json:"content_type"`
	Payload      string `json:"payload_hex"`

	Cause       uint8         `json:"cause"`
	CallerType  string        `json:"caller_type"`
	CallerID    string        `json:"caller_id"`
	CauseName   string        `json:"cause_name"`
	DueUnixNano int64         `json:"due_unix_nano"`
	Attempt     uint32        `json:"attempt"`
	Missed      uint32        `json:"missed"`
	Metadata    []headerValue `json:"metadata"`

	Cookie    uint64 `json:"cookie"`
	MethodSet string `json:"method_set"`
	Failed    string `json:"failed"`
	ByType    string `json:"by_type"`
	ByID      string `json:"by_id"`
}

type messageValue struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	Method      string `json:"method"`
	Service     string `json:"service"`
	ContentType string `json:"content_type"`
	Payload     string `json:"payload_hex"`
	Flags       uint32 `json:"flags"`
	LimitMillis uint32 `json:"limit_ms"`

	DueUnixNano  int64  `json:"due_unix_nano"`
	Undelivered  string `json:"undelivered"`
	Cookie       uint64 `json:"cookie"`
	Channel      uint32 `json:"channel"`
	DelayNano    int64  `json:"delay_nano"`
	ForwardType  string `json:"forward_type"`
	ForwardID    string `json:"forward_id"`
	OnBehalfType string `json:"on_behalf_type"`
	OnBehalfID   string `json:"on_behalf_id"`
}

type resultValue struct {
	Error       errorValue `json:"error"`
	ContentType string     `json:"content_type"`
	Payload     string     `json:"payload_hex"`
	Flags       uint32     `json:"flags"`
}

type reminderValue struct {
	Name         string        `json:"name"`
	Method       string        `json:"method"`
	ContentType  string        `json:"content_type"`
	Payload      string        `json:"payload_hex"`
	DueUnixNano  int64         `json:"due_unix_nano"`
	PeriodNano   int64         `json:"period_nano"`
	Cron         string        `json:"cron"`
	Zone         string        `json:"zone"`
	Count        uint32        `json:"count"`
	UntilNano    int64         `json:"until_unix_nano"`
	Missed       uint8         `json:"missed"`
	Attempts     uint32        `json:"attempts"`
	Metadata     []headerValue `json:"metadata"`
	DelayNano    int64         `json:"delay_nano"`
	JitterNano   int64         `json:"jitter_nano"`
	MissedLimit  uint32        `json:"missed_limit"`
	MissedAfter  int64         `json:"missed_after_nano"`
	Failure      uint8         `json:"failure"`
	IntervalNano int64         `json:"interval_nano"`
	LongestNano  int64         `json:"longest_interval_nano"`
	Flags        uint32        `json:"flags"`
}

type errorValue struct {
	Status            uint16 `json:"status"`
	Code              string `json:"code"`
	Message           string `json:"message"`
	Retryable         bool   `json:"retryable"`
	DetailContentType string `json:"detail_content_type"`
	Detail            string `json:"detail_hex"`
	RetryAfterMillis  uint32 `json:"retry_after_ms"`
}

type entryValue struct {
	Key    string `json:"key"`
	Format uint8  `json:"format"`
	Value  string `json:"value_hex"`
}

type requestValue struct {
	Method        string        `json:"method"`
	URL           string        `json:"url"`
	Headers       []headerValue `json:"headers"`
	Body          string        `json:"body_hex"`
	TimeoutMillis uint32        `json:"timeout_ms"`
	Flags         uint32        `json:"flags"`
}

type responseValue struct {
	Status  uint16        `json:"status"`
	Headers []headerValue `json:"headers"`
	Body    string        `json:"body_hex"`
	Code    string        `json:"code"`
	Message string        `json:"message"`
}

type headerValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func headerValues(headers []abi.Header) []headerValue {
	values := []headerValue{}
	for _, h := range headers {
		values = append(values, headerValue(h))
	}
	return values
}

func headersOf(values []headerValue) []abi.Header {
	var headers []abi.Header
	for _, v := range values {
		headers = append(headers, abi.Header(v))
	}
	return headers
}

type manifestVector struct {
	Name     string        `json:"name"`
	Text     string        `json:"text"`
	Refused  []string      `json:"refused,omitempty"`
	Manifest *abi.Manifest `json:"manifest,omitempty"`
}

// codec is what the checks need of one kind of frame: decode fills the value
// into v, encode is its inverse.
type codec struct {
	decode func(data []byte, v *frameVector) error
	encode func(v *frameVector) []byte
}

var turnCodec = codec{
	decode: func(data []byte, v *frameVector) error {
		var t abi.Turn
		if err := abi.DecodeTurn(data, &t); err != nil {
			return err
		}
		v.Turn = &turnValue{t.What, t.Flags, t.App, t.Type, t.ID, t.Method, t.InvocationID, t.TimeUnixNano,
			t.Revision, t.StoredSchema, t.ContentType, hex.EncodeToString(t.Payload),
			t.Cause, t.CallerType, t.CallerID, t.CauseName, t.DueUnixNano, t.Attempt, t.Missed, headerValues(t.Metadata),
			t.Cookie, t.MethodSet, t.Failed, t.ByType, t.ByID}
		return nil
	},
	encode: func(v *frameVector) []byte {
		t := v.Turn
		return abi.AppendTurn(nil, &abi.Turn{What: t.What, Flags: t.Flags, App: t.App, Type: t.Type, ID: t.ID,
			Method: t.Method, InvocationID: t.InvocationID, TimeUnixNano: t.TimeUnixNano, Revision: t.Revision,
			StoredSchema: t.StoredSchema, ContentType: t.ContentType, Payload: unhex(t.Payload),
			Cause: t.Cause, CallerType: t.CallerType, CallerID: t.CallerID, CauseName: t.CauseName, DueUnixNano: t.DueUnixNano, Attempt: t.Attempt, Missed: t.Missed, Metadata: headersOf(t.Metadata),
			Cookie: t.Cookie, MethodSet: t.MethodSet, Failed: t.Failed, ByType: t.ByType, ByID: t.ByID})
	},
}

var reminderCodec = codec{
	decode: func(data []byte, v *frameVector) error {
		var r abi.Reminder
		if err := abi.DecodeReminder(data, &r); err != nil {
			return err
		}
		v.Reminder = &reminderValue{r.Name, r.Method, r.ContentType, hex.EncodeToString(r.Payload), r.DueUnixNano, r.PeriodNano,
			r.Cron, r.Zone, r.Count, r.UntilNano, r.Missed, r.Attempts, headerValues(r.Metadata), r.DelayNano, r.JitterNano,
			r.MissedLimit, r.MissedAfter, r.Failure, r.IntervalNano, r.LongestNano, r.Flags}
		return nil
	},
	encode: func(v *frameVector) []byte {
		r := v.Reminder
		return abi.AppendReminder(nil, &abi.Reminder{Name: r.Name, Method: r.Method, ContentType: r.ContentType, Payload: unhex(r.Payload),
			DueUnixNano: r.DueUnixNano, PeriodNano: r.PeriodNano, Cron: r.Cron, Zone: r.Zone, Count: r.Count, UntilNano: r.UntilNano,
			Missed: r.Missed, Attempts: r.Attempts, Metadata: headersOf(r.Metadata), DelayNano: r.DelayNano, JitterNano: r.JitterNano,
			MissedLimit: r.MissedLimit, MissedAfter: r.MissedAfter, Failure: r.Failure, IntervalNano: r.IntervalNano,
			LongestNano: r.LongestNano, Flags: r.Flags})
	},
}

var messageCodec = codec{
	decode: func(data []byte, v *frameVector) error {
		var m abi.Message
		if err := abi.DecodeMessage(data, &m); err != nil {
			return err
		}
		v.Message = &messageValue{m.Type, m.ID, m.Method, m.Service, m.ContentType, hex.EncodeToString(m.Payload), m.Flags, m.LimitMillis,
			m.DueUnixNano, m.Undelivered, m.Cookie, m.Channel, m.DelayNano, m.ForwardType, m.ForwardID, m.OnBehalfType, m.OnBehalfID}
		return nil
	},
	encode: func(v *frameVector) []byte {
		m := v.Message
		return abi.AppendMessage(nil, &abi.Message{Type: m.Type, ID: m.ID, Method: m.Method, Service: m.Service, ContentType: m.ContentType,
			Payload: unhex(m.Payload), Flags: m.Flags, LimitMillis: m.LimitMillis,
			DueUnixNano: m.DueUnixNano, Undelivered: m.Undelivered, Cookie: m.Cookie, Channel: m.Channel, DelayNano: m.DelayNano,
			ForwardType: m.ForwardType, ForwardID: m.ForwardID, OnBehalfType: m.OnBehalfType, OnBehalfID: m.OnBehalfID})
	},
}

var resultCodec = codec{
	decode: func(data []byte, v *frameVector) error {
		var r abi.Result
		if err := abi.DecodeResult(data, &r); err != nil {
			return err
		}
		v.Result = &resultValue{errorValue{r.Status, r.Code, r.Message, r.Retryable, r.DetailContentType, hex.EncodeToString(r.Detail), r.RetryAfterMillis},
			r.ContentType, hex.EncodeToString(r.Payload), r.Flags}
		return nil
	},
	encode: func(v *frameVector) []byte {
		r, e := v.Result, v.Result.Error
		return abi.AppendResult(nil, &abi.Result{ContentType: r.ContentType, Payload: unhex(r.Payload), Flags: r.Flags, Error: abi.Error{Status: e.Status,
			Code: e.Code, Message: e.Message, Retryable: e.Retryable, DetailContentType: e.DetailContentType, Detail: unhex(e.Detail),
			RetryAfterMillis: e.RetryAfterMillis}})
	},
}

var errorCodec = codec{
	decode: func(data []byte, v *frameVector) error {
		e, err := abi.DecodeError(data)
		if err != nil {
			return err
		}
		v.Error = &errorValue{e.Status, e.Code, e.Message, e.Retryable, e.DetailContentType, hex.EncodeToString(e.Detail), e.RetryAfterMillis}
		return nil
	},
	encode: func(v *frameVector) []byte {
		e := v.Error
		return abi.AppendError(nil, &abi.Error{Status: e.Status, Code: e.Code, Message: e.Message,
			Retryable: e.Retryable, DetailContentType: e.DetailContentType, Detail: unhex(e.Detail), RetryAfterMillis: e.RetryAfterMillis})
	},
}

var keyListCodec = codec{
	decode: func(data []byte, v *frameVector) error {
		keys, err := abi.DecodeKeyList(data)
		if err != nil {
			return err
		}
		if keys == nil {
			keys = []string{}
		}
		v.Keys = &keys
		return nil
	},
	encode: func(v *frameVector) []byte { return abi.AppendKeyList(nil, *v.Keys) },
}

var envelopeCodec = codec{
	decode: func(data []byte, v *frameVector) error {
		entries, err := envelope.Decode(data)
		if err != nil {
			return err
		}
		values := []entryValue{}
		for _, e := range entries {
			values = append(values, entryValue{e.Key, uint8(e.Format), hex.EncodeToString(e.Value)})
		}
		v.Entries = &values
		return nil
	},
	encode: func(v *frameVector) []byte {
		var entries []envelope.Entry
		for _, e := range *v.Entries {
			entries = append(entries, envelope.Entry{Key: e.Key, Format: abi.Format(e.Format), Value: unhex(e.Value)})
		}
		return envelope.Append(nil, entries)
	},
}

var requestCodec = codec{
	decode: func(data []byte, v *frameVector) error {
		var r abi.HTTPRequest
		if err := abi.DecodeHTTPRequest(data, &r); err != nil {
			return err
		}
		v.Request = &requestValue{r.Method, r.URL, headerValues(r.Headers), hex.EncodeToString(r.Body), r.TimeoutMillis, r.Flags}
		return nil
	},
	encode: func(v *frameVector) []byte {
		r := v.Request
		return abi.AppendHTTPRequest(nil, &abi.HTTPRequest{Method: r.Method, URL: r.URL, Headers: headersOf(r.Headers),
			Body: unhex(r.Body), TimeoutMillis: r.TimeoutMillis, Flags: r.Flags})
	},
}

var responseCodec = codec{
	decode: func(data []byte, v *frameVector) error {
		var r abi.HTTPResponse
		if err := abi.DecodeHTTPResponse(data, &r); err != nil {
			return err
		}
		v.Response = &responseValue{r.Status, headerValues(r.Headers), hex.EncodeToString(r.Body), r.Code, r.Message}
		return nil
	},
	encode: func(v *frameVector) []byte {
		r := v.Response
		return abi.AppendHTTPResponse(nil, &abi.HTTPResponse{Status: r.Status, Headers: headersOf(r.Headers),
			Body: unhex(r.Body), Code: r.Code, Message: r.Message})
	},
}

func TestVectors(t *testing.T) {
	t.Run("turn", func(t *testing.T) {
		checkFrames(t, "turn.json", "Turn frames, host to guest: SPEC.md section 4.", turnCodec, turnVectors())
	})
	t.Run("error", func(t *testing.T) {
		checkFrames(t, "error.json", "Error frames, guest to host: SPEC.md section 4.", errorCodec, errorVectors())
	})
	t.Run("key list", func(t *testing.T) {
		checkFrames(t, "key_list.json", "Key lists, host to guest: SPEC.md section 4.", keyListCodec, keyListVectors())
	})
	t.Run("request", func(t *testing.T) {
		checkFrames(t, "request.json", "Request frames, guest to host: SPEC.md section 6.", requestCodec, requestVectors())
	})
	t.Run("response", func(t *testing.T) {
		checkFrames(t, "response.json", "Response frames, host to guest: SPEC.md section 6.", responseCodec, responseVectors())
	})
	t.Run("reminder", func(t *testing.T) {
		checkFrames(t, "reminder.json", "Reminder frames, both ways: SPEC.md section 4.", reminderCodec, reminderVectors())
	})
	t.Run("message", func(t *testing.T) {
		checkFrames(t, "message.json", "Message frames, guest to host: SPEC.md section 4.", messageCodec, messageVectors())
	})
	t.Run("result", func(t *testing.T) {
		checkFrames(t, "result.json", "Result frames, host to guest: SPEC.md section 4.", resultCodec, resultVectors())
	})
	t.Run("envelope", func(t *testing.T) {
		checkFrames(t, "envelope.json", "State envelopes, at rest: SPEC.md section 4.", envelopeCodec, envelopeVectors())
	})
	t.Run("manifest", checkManifests)
	t.Run("behaviour", checkBehaviour)
}

// checkFrames proves three things of each vector: that the tables and the file
// agree, that the file's bytes decode to the file's value or are refused, and
// that a canonical value encodes to the file's bytes.
func checkFrames(t *testing.T, file, description string, c codec, table []frameVector) {
	want := readVectors(t, file, vectorFile[frameVector]{description, table})
	for _, v := range want {
		t.Run(v.Name, func(t *testing.T) {
			got := v
			got.Turn, got.Error, got.Keys, got.Entries, got.Request, got.Response, got.Reminder = nil, nil, nil, nil, nil, nil, nil
			err := c.decode(unhex(v.Hex), &got)
			if v.Refused != "" {
				if err == nil || err.Error() != v.Refused {
					t.Fatalf("decode: got error %v, want %s", err, v.Refused)
				}
				return
			}
			if err != nil {
				t.Fatalf("decode: %v", err)
			}
			if !reflect.DeepEqual(got, v) {
				t.Errorf("decode: got %s, want %s", encodeJSON(t, got), encodeJSON(t, v))
			}
			if encoded := hex.EncodeToString(c.encode(&v)); (encoded == v.Hex) != v.Canonical {
				t.Errorf("encode: got %s, want canonical=%t of %s", encoded, v.Canonical, v.Hex)
			}
		})
	}
}

func checkManifests(t *testing.T) {
	want := readVectors(t, "manifest.json", vectorFile[manifestVector]{"Manifests: SPEC.md section 3.", manifestVectors()})
	for _, v := range want {
		t.Run(v.Name, func(t *testing.T) {
			m, faults := manifest.Parse([]byte(v.Text))
			var codes []string
			for _, f := range faults {
				codes = append(codes, f.Code)
			}
			if !reflect.DeepEqual(codes, v.Refused) {
				t.Fatalf("faults: got %v, want codes %q", faults, v.Refused)
			}
			if !reflect.DeepEqual(m, v.Manifest) {
				t.Errorf("got %s, want %s", encodeJSON(t, m), encodeJSON(t, v.Manifest))
			}
		})
	}
}

// readVectors returns the vectors of the file, which must be those of the table.
func readVectors[V any](t *testing.T, file string, table vectorFile[V]) []V {
	t.Helper()
	path := filepath.Join("testdata", "vectors", file)
	generated := encodeJSON(t, table)
	if *update {
		if err := os.WriteFile(path, generated, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, generated) {
		t.Errorf("%s differs from the table (%v): run go test . -run TestVectors -update", path, err)
	}
	return loadVectors[V](t, file)
}

func loadVectors[V any](t testing.TB, file string) []V {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "vectors", file))
	if err != nil {
		t.Fatal(err)
	}
	var read vectorFile[V]
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return read.Vectors
}

func encodeJSON(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}
