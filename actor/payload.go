package actor

import (
	"mime"
	"strings"
)

// Payload is an opaque body and what it claims to be.
type Payload struct {
	ContentType string // a media type; empty means application/json
	Data        []byte
}

// ContentTypeJSON is the content type of a [Payload] that names none.
const ContentTypeJSON = "application/json"

// IsJSON reports whether a content type is that of JSON: none, [ContentTypeJSON], or one
// that ends in +json, whatever parameters it has.
func IsJSON(contentType string) bool {
	if contentType == "" || contentType == ContentTypeJSON {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == ContentTypeJSON || strings.HasSuffix(media, "+json"))
}

// MaxContentType is the longest content type of a reminder's payload, in bytes.
const MaxContentType = 256
