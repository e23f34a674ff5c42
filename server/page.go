package server

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/greenroom-run/greenroom/actor"
)

const defaultPageSize = 100

// tokenSumLen is enough to tell a token of another list or a mistyped one; it is
// no secret, since a token grants nothing that its list does not.
const tokenSumLen = 6

// pageToken is opaque to callers: after, where the next page begins, bound to
// the list that it came from.
func pageToken(list pageList, after string) string {
	sum := list.sum(after)
	return base64.RawURLEncoding.EncodeToString(append(sum[:tokenSumLen:tokenSumLen], after...))
}

// pageList names a list: one token fits one list.
type pageList struct {
	procedure, app, typ string
}

func (l pageList) sum(after string) [sha256.Size]byte {
	// Neither an app nor a type holds a '|'.
	return sha256.Sum256([]byte(l.procedure + "|" + l.app + "|" + l.typ + "|" + after))
}

// parsePageToken returns where the page begins; empty for the first page.
func parsePageToken(list pageList, token string) (after string, err error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil && len(raw) > tokenSumLen {
		after = string(raw[tokenSumLen:])
		if sum := list.sum(after); string(sum[:tokenSumLen]) == string(raw[:tokenSumLen]) {
			return after, nil
		}
	}
	return "", &actor.ArgumentError{Field: "page_token", Problem: "is not a token of this list; use next_page_token of the page before, or none"}
}

// pageSize fills in the default; protovalidate has checked the bounds.
func pageSize(asked int32) int {
	if asked == 0 {
		return defaultPageSize
	}
	return int(asked)
}
