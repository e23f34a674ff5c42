package manifest

import (
	"encoding/binary"
	"errors"

	"github.com/greenroom-run/greenroom/abi"
)

// SectionName is the custom section in which a module may carry its manifest, as
// JSON. Plug-ins whose tools cannot write it otherwise get it so: [Embed].
const SectionName = abi.ExportManifest

// errNotModule is what Embed says of bytes that are no module.
var errNotModule = errors.New("it is not a WebAssembly module, or it was cut off")

// Section returns the manifest that a module carries in its custom section, the
// last one if there are several. Bytes that are no module have none.
func Section(wasm []byte) (text []byte, ok bool) {
	_ = eachSection(wasm, func(s section) {
		if s.name == SectionName {
			text, ok = s.content, true
		}
	})
	return text, ok
}

// Embed returns the module with text as its manifest section, in the place of any
// it had. The text is not judged: see [Parse].
func Embed(wasm, text []byte) ([]byte, error) {
	out := make([]byte, 0, len(wasm)+len(text)+len(SectionName)+16)
	err := eachSection(wasm, func(s section) {
		if s.name != SectionName {
			out = append(out, s.whole...)
		}
	})
	if err != nil {
		return nil, err
	}
	out = append(wasm[:headerBytes:headerBytes], out...)
	payload := binary.AppendUvarint(nil, uint64(len(SectionName)))
	payload = append(append(payload, SectionName...), text...)
	out = binary.AppendUvarint(append(out, 0), uint64(len(payload)))
	return append(out, payload...), nil
}

const headerBytes = 8

// section is one section of a module. Only custom ones have a name.
type section struct {
	whole   []byte // with its number and size
	name    string
	content []byte // after the name
}

func eachSection(wasm []byte, visit func(section)) error {
	if len(wasm) < headerBytes || string(wasm[:4]) != "\x00asm" {
		return errNotModule
	}
	for rest := wasm[headerBytes:]; len(rest) > 0; {
		payload, size, ok := vector(rest[1:])
		if !ok {
			return errNotModule
		}
		s := section{whole: rest[:1+size]}
		if rest[0] == 0 {
			name, n, ok := vector(payload)
			if !ok {
				return errNotModule
			}
			s.name, s.content = string(name), payload[n:]
		}
		visit(s)
		rest = rest[1+size:]
	}
	return nil
}

// vector reads bytes with their count before them. size is what both take.
func vector(b []byte) (content []byte, size int, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return nil, 0, false
	}
	size = used + int(n)
	return b[used:size], size, true
}
