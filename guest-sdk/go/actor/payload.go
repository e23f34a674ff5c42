package actor

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/jsonplan"
	"github.com/greenroom-run/greenroom/guest-sdk/go/protobuf"
)

const (
	contentTypeJSON  = "application/json"
	contentTypeBytes = "application/octet-stream"
)

// None is the input of a method that takes none, whatever was sent, and the
// output of one that answers nothing.
type None struct{}

// Payload is raw input or output with its content type. As an input, an empty
// content type means application/json. []byte is the same without a content
// type; as an output it is application/octet-stream.
type Payload struct {
	ContentType string
	Data        []byte
}

// decodeInput decodes the turn's payload into in, a pointer to a method's input.
func (c *Context) decodeInput(t inputType, in any) error {
	// Raw bytes are copied: the frame is overwritten by the next turn, and
	// a method may well put its input into the state.
	switch in := in.(type) {
	case *None:
		return nil
	case *[]byte:
		*in = bytes.Clone(c.frame.Payload)
		return nil
	case *Payload:
		in.Data = bytes.Clone(c.frame.Payload)
		in.ContentType = strings.Clone(c.frame.ContentType)
		if in.ContentType == "" {
			in.ContentType = contentTypeJSON
		}
		return nil
	case protobuf.Decoder:
		return decodeProtobuf(c, in)
	}
	if len(c.frame.Payload) == 0 {
		if t.optional {
			return nil
		}
		return badJSON("the payload is empty; the method takes JSON")
	}
	if err := unmarshal(t.plan, c.frame.Payload, in); err != nil {
		return badJSON("the payload " + jsonProblem(err))
	}
	return nil
}

func badJSON(message string) error { return NewError(StatusInvalidArgument, "bad_json", message) }

// jsonProblem says what json.Unmarshal found, and where, in the caller's terms.
func jsonProblem(err error) string {
	switch err := err.(type) {
	case *json.SyntaxError:
		return "is not JSON, byte " + strconv.FormatInt(err.Offset, 10) + ": " + err.Error()
	case *json.UnmarshalTypeError:
		where := "as a whole"
		if err.Field != "" {
			where = "in field " + err.Field
		}
		return "has the wrong type " + where + ", byte " + strconv.FormatInt(err.Offset, 10) +
			": " + err.Value + ", want " + jsonKind(err)
	}
	return "cannot be decoded: " + err.Error()
}

func jsonKind(err *json.UnmarshalTypeError) string {
	if err.Type == nil {
		return "another type"
	}
	return err.Type.String()
}

// reply sets the turn's reply; out is a pointer to a method's output.
func (c *Context) reply(plan *jsonplan.Plan, out any) error {
	contentType := contentTypeJSON
	var data []byte
	switch out := out.(type) {
	case *None:
		return nil
	case *[]byte:
		contentType, data = contentTypeBytes, *out
	case *Payload:
		contentType, data = out.ContentType, out.Data
		if contentType == "" {
			contentType = contentTypeJSON
		}
	case protobuf.Message:
		contentType, data = abi.ContentTypeProtobuf, c.instance.replies.protobuf(out)
	default:
		encoded, err := c.instance.replies.encode(plan, out)
		if err != nil {
			return NewError(StatusInternal, "bad_reply", "the reply has no JSON form: "+err.Error())
		}
		data = encoded
	}
	if code := c.instance.host.Reply(contentType, data); code < 0 {
		if code == abi.CodeTooLarge {
			return ErrTooLarge.Messagef("the reply has %d bytes, more than the host's limit", len(data))
		}
		return codeError(code)
	}
	return nil
}
