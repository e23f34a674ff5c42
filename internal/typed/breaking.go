package typed

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/greenroom-run/greenroom/abi"
)

// Breaking says what clients of the service that a type had will miss in the one that it gets: what
// buf's rules of the category WIRE_JSON call breaking, and the field of the actor's ID.
func Breaking(before, after *abi.TypeSpec) (said []string) {
	was, is := before.Protobuf, after.Protobuf
	switch {
	case was.IsZero():
		return nil
	case is.Service != was.Service:
		return []string{fmt.Sprintf("the service %s is gone; its clients get path_not_found", was.Service)}
	case string(is.Descriptor) == string(was.Descriptor) && is.IDField == was.IDField:
		return nil
	}
	old, problems := Parse(before)
	if len(problems) > 0 {
		return nil // of an upload that another version took
	}
	c := comparison{seen: make(map[protoreflect.FullName]bool)}
	if was.IDField != "" && is.IDField != was.IDField {
		c.say("the actor's ID is no longer in the field %s", was.IDField)
	}
	found, err := old.Files.FindDescriptorByName(protoreflect.FullName(was.Service))
	rpcs, ok := found.(protoreflect.ServiceDescriptor)
	replacing, problems := Parse(after)
	if err != nil || !ok || len(problems) > 0 {
		return c.said
	}
	for i := range rpcs.Methods().Len() { // in the order of the file
		m := old.methods[string(rpcs.Methods().Get(i).Name())]
		now := replacing.methods[m.Name]
		if now == nil {
			c.say("the rpc %s of %s is gone; calls of it fail with path_not_found", m.Name, was.Service)
			continue
		}
		switch {
		case m.Streaming && !now.Streaming:
			c.say("the rpc %s returns one message instead of a stream; open streams end with path_not_found", m.Name)
		case !m.Streaming && now.Streaming:
			c.say("the rpc %s returns a stream instead of one message; calls of it are refused", m.Name)
		}
		if m.NoSideEffects && !now.NoSideEffects {
			c.say("the rpc %s may have side effects now; GETs of it are refused", m.Name)
		}
		c.types(fmt.Sprintf("the rpc %s takes", m.Name), m.input, now.input)
		c.types(fmt.Sprintf("the rpc %s returns", m.Name), m.output, now.output)
	}
	return c.said
}

// comparison collects what changed between two services.
type comparison struct {
	seen map[protoreflect.FullName]bool // messages and enumerations
	said []string
}

func (c *comparison) say(format string, args ...any) {
	switch len(c.said) {
	case maxProblems:
		c.said = append(c.said, "more of the service changes incompatibly")
	default:
		if len(c.said) < maxProblems {
			c.said = append(c.said, fmt.Sprintf(format, args...))
		}
	}
}

// types compares two messages, which are the types of what.
func (c *comparison) types(what string, was, is protoreflect.MessageDescriptor) {
	if was.FullName() != is.FullName() {
		c.say("%s %s instead of %s", what, shorten(string(is.FullName())), shorten(string(was.FullName())))
		return
	}
	if c.seen[was.FullName()] {
		return
	}
	c.seen[was.FullName()] = true
	for i := range was.Fields().Len() {
		f := was.Fields().Get(i)
		name := shorten(string(f.FullName()))
		now := is.Fields().ByNumber(f.Number())
		if now == nil {
			if !is.ReservedRanges().Has(f.Number()) {
				c.say("the field %s, number %d, is gone; reserve its number", name, f.Number())
			}
			continue
		}
		switch {
		case f.Kind() != now.Kind():
			c.say("the field %s is %s instead of %s", name, now.Kind(), f.Kind())
		case f.IsList() != now.IsList() || f.IsMap() != now.IsMap():
			c.say("the field %s is %s instead of %s", name, cardinality(now), cardinality(f))
		case f.JSONName() != now.JSONName():
			c.say("the field %s is called %s in JSON instead of %s", name, shorten(now.JSONName()), shorten(f.JSONName()))
		case f.Message() != nil:
			c.types("the field "+name+" is", f.Message(), now.Message())
		case f.Enum() != nil:
			c.enums(f.Enum(), now.Enum())
		}
	}
}

// enums compares the values of two enumerations.
func (c *comparison) enums(was, is protoreflect.EnumDescriptor) {
	if c.seen[was.FullName()] {
		return
	}
	c.seen[was.FullName()] = true
	for i := range was.Values().Len() {
		v := was.Values().Get(i)
		name := shorten(string(v.FullName()))
		switch now := is.Values().ByNumber(v.Number()); {
		case now == nil && !is.ReservedRanges().Has(v.Number()):
			c.say("the value %s, number %d, is gone; reserve its number", name, v.Number())
		case now != nil && is.Values().ByName(v.Name()) == nil:
			c.say("the value %s is called %s instead, which its clients in JSON do not know", name, shorten(string(now.Name())))
		}
	}
}

func cardinality(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return "a map"
	case f.IsList():
		return "repeated"
	}
	return "one value"
}
