package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object with its place in the manifest. encoding/json alone is
// too forgiving here: it matches names in any case, takes the last of two equal
// members, and stops at the first unknown one.
type object struct {
	at      string
	broken  bool // not an object; its members are not missed
	members map[string]json.RawMessage
}

func (o *object) get(name string) (json.RawMessage, bool) {
	raw, ok := o.members[name]
	return raw, ok
}

// checkJSON returns the first error of syntax, with its place.
func checkJSON(data []byte) error {
	var raw json.RawMessage
	err := json.Unmarshal(data, &raw)
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return fmt.Errorf("byte %d: %w", syntax.Offset, err)
	}
	return err
}

// object reads raw, which is valid JSON, and refuses members that are not known.
func (p *parser) object(at string, raw json.RawMessage, known ...string) *object {
	o := &object{at: at, members: make(map[string]json.RawMessage, len(known))}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, _ := dec.Token(); tok != json.Delim('{') {
		o.broken = true
		p.wrongType(at, raw, "an object")
		return o
	}
	for dec.More() {
		tok, _ := dec.Token()
		name, _ := tok.(string)
		var value json.RawMessage
		_ = dec.Decode(&value) // raw is valid JSON
		_, seen := o.members[name]
		switch {
		case !slices.Contains(known, name):
			p.fault(CodeUnknownMember, "%s: has the unknown member %s; known are %s (a newer SDK may need a newer host)",
				at, shorten(strconv.Quote(name)), strings.Join(known, ", "))
		case seen:
			p.fault(CodeDuplicateMember, "%s: has the member %q twice; leave one", at, name)
		default:
			o.members[name] = value
		}
	}
	return o
}

func (p *parser) required(o *object, name string) (json.RawMessage, bool) {
	raw, ok := o.get(name)
	if !ok && !o.broken {
		p.fault(CodeMissingMember, "%s: lacks the member %q", o.at, name)
	}
	return raw, ok
}

// array reads raw, which must have 1 to limit elements, each of them a what.
func (p *parser) array(at string, raw json.RawMessage, limit int, what string) []json.RawMessage {
	var elems []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &elems) != nil {
		p.wrongType(at, raw, "an array")
		return nil
	}
	if len(elems) == 0 {
		p.fault(CodeBadValue, "%s: is empty; register at least one %s", at, what)
	}
	if len(elems) > limit {
		p.fault(CodeBadValue, "%s: has %d elements; at most %d are allowed", at, len(elems), limit)
	}
	return elems
}

func (p *parser) text(at string, raw json.RawMessage) (s string, ok bool) {
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		p.wrongType(at, raw, "a string")
		return "", false
	}
	return s, true
}

// name reads the name of a type or a method; empty means that there was a fault.
func (p *parser) name(at string, raw json.RawMessage) string {
	s, ok := p.text(at, raw)
	if !ok {
		return ""
	}
	switch {
	case s == "":
		p.fault(CodeBadName, "%s: is empty; give 1 to %d of the characters A-Z a-z 0-9 . _ -", at, MaxNameLen)
		return ""
	case len(s) > MaxNameLen:
		p.fault(CodeBadName, "%s: has %d bytes; at most %d are allowed", at, len(s), MaxNameLen)
		return ""
	}
	for i, r := range s {
		if !nameRune(r) {
			p.fault(CodeBadName, "%s: %q has the character %q at byte %d; only A-Z a-z 0-9 . _ - are allowed", at, s, r, i)
			return ""
		}
	}
	return s
}

// host reads a host rule; empty means that there was a fault.
func (p *parser) host(at string, raw json.RawMessage) string {
	s, ok := p.text(at, raw)
	if !ok {
		return ""
	}
	rule, err := ParseHostRule(s)
	if err != nil {
		p.fault(CodeBadValue, "%s: %s %v", at, shorten(strconv.Quote(s)), err)
		return ""
	}
	return rule.String()
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

func (p *parser) oneOf(at string, raw json.RawMessage, values ...string) string {
	s, ok := p.text(at, raw)
	if ok && !slices.Contains(values, s) {
		p.fault(CodeBadValue, "%s: is %s; choose one of %s", at, shorten(strconv.Quote(s)), strings.Join(values, ", "))
		return ""
	}
	return s
}

// placement reads a placement policy; empty means that there was a fault.
func (p *parser) placement(at string, raw json.RawMessage) string {
	s, ok := p.text(at, raw)
	if !ok {
		return ""
	}
	policy, err := ParsePlacement(s)
	if err != nil {
		p.fault(CodeBadValue, "%s: %s %v", at, shorten(strconv.Quote(s)), err)
		return ""
	}
	return policy.String()
}

func (p *parser) boolean(at string, raw json.RawMessage) bool {
	switch string(raw) {
	case "true":
		return true
	case "false":
		return false
	}
	p.wrongType(at, raw, "true or false")
	return false
}

func (p *parser) integer(at string, raw json.RawMessage, low, high int64) (v int64, ok bool) {
	v, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		p.wrongType(at, raw, "a whole number")
		return 0, false
	case err != nil || v < low || v > high:
		p.fault(CodeBadValue, "%s: is %s; allowed are %d to %d", at, shorten(string(raw)), low, high)
		return 0, false
	}
	return v, true
}

func (p *parser) wrongType(at string, raw json.RawMessage, want string) {
	p.fault(CodeWrongType, "%s: is %s; it must be %s", at, shorten(string(raw)), want)
}

// shorten keeps a hostile value from filling the answer.
func shorten(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
