package manifest

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
)

// maxServiceLen bounds the full name of a Protobuf service, in bytes.
const maxServiceLen = 255

// protobuf reads the service of a type. The descriptor is for the host to judge: guests carry
// this package's module, and no codec of descriptors.
func protobuf(p *parser, at string, raw json.RawMessage) abi.Protobuf {
	var s abi.Protobuf
	obj := p.object(at, raw, "service", "descriptor", "id_field")
	if raw, ok := p.required(obj, "service"); ok {
		s.Service, ok = p.text(at+".service", raw)
		if ok && (len(s.Service) > maxServiceLen || !isFullName(s.Service)) {
			p.fault(CodeBadName, "%s.service: %s is no full name of a service; give one like shop.v1.CartService, of at most %d bytes", at, shorten(string(raw)), maxServiceLen)
		}
	}
	if raw, ok := p.required(obj, "descriptor"); ok {
		text, ok := p.text(at+".descriptor", raw)
		var err error
		if s.Descriptor, err = base64.StdEncoding.DecodeString(text); ok && err != nil {
			p.fault(CodeBadValue, "%s.descriptor: is not base64: %v", at, err)
		}
		if ok && text == "" {
			p.fault(CodeBadValue, "%s.descriptor: is empty; give the FileDescriptorSet of the service", at)
		}
	}
	if raw, ok := obj.get("id_field"); ok {
		s.IDField, ok = p.text(at+".id_field", raw)
		if ok && (len(s.IDField) > MaxNameLen || !isIdentifier(s.IDField)) {
			p.fault(CodeBadName, "%s.id_field: %s is no name of a field; give one of at most %d bytes", at, shorten(string(raw)), MaxNameLen)
		}
	}
	return s
}

// checkServices finds services that several types have: a request names no type.
func checkServices(p *parser, types []abi.TypeSpec) {
	first := make(map[string]string)
	for _, t := range types {
		name := t.Protobuf.Service
		if other, ok := first[name]; ok && name != "" {
			p.fault(CodeDuplicateName, "type %s.protobuf.service: is %q, as that of type %s; a service has one type", t.Name, name, other)
		}
		first[name] = t.Name
	}
}

func isFullName(s string) bool {
	for part := range strings.SplitSeq(s, ".") {
		if !isIdentifier(part) {
			return false
		}
	}
	return true
}

// isIdentifier reports whether s is an identifier of Protobuf.
func isIdentifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
