package rpc

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
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

// parsePageToken returns where the page begins, as read reads it; the zero value for
// the first page. Anybody can make a token that has the sum of its list, so read checks
// all of what it is given: a handler gets positions that some page could have.
func parsePageToken[P any](list pageList, token string, read func(list pageList, after string) (P, error)) (at P, err error) {
	if token == "" {
		return at, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil && len(raw) > tokenSumLen {
		after := string(raw[tokenSumLen:])
		if sum := list.sum(after); string(sum[:tokenSumLen]) == string(raw[:tokenSumLen]) {
			if p, err := read(list, after); err == nil {
				return p, nil
			}
		}
	}
	return at, &actor.ArgumentError{Field: "page_token", Problem: "is not a token of this list; use next_page_token of the page before, or none"}
}

// What pages begin after, as their tokens have it. Each function reads what its list
// writes, and refuses all else.

func afterApp(_ pageList, after string) (string, error) {
	return after, actor.ValidateName("app", after)
}

func afterActor(_ pageList, after string) (string, error) { return after, actor.ValidateID(after) }

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func afterModule(_ pageList, after string) (actor.Digest, error) {
	if !digestForm.MatchString(after) {
		return "", errPagePosition
	}
	return actor.Digest(after), nil
}

func generationPosition(n uint64) string { return strconv.FormatUint(n, 10) }

// afterGeneration is for lists that begin with the newest generation.
func afterGeneration(_ pageList, after string) (uint64, error) {
	n, err := strconv.ParseUint(after, 10, 64)
	if err != nil || n < 2 || generationPosition(n) != after {
		return 0, errPagePosition
	}
	return n, nil
}

// pageSeparator stands between the parts of a position: no part has control characters.
const pageSeparator = "\x00"

func stickyPosition(key actor.Key) string { return key.Type + pageSeparator + key.ID }

func afterSticky(list pageList, after string) (actor.Key, error) {
	typ, id, _ := strings.Cut(after, pageSeparator)
	return afterKey(list, typ, id)
}

func afterKey(list pageList, typ, id string) (actor.Key, error) {
	if list.typ != "" && typ != list.typ {
		return actor.Key{}, errPagePosition
	}
	key := actor.Key{App: list.app, Type: typ, ID: id}
	return key, key.Validate()
}

func reminderPosition(n actor.ReminderName) string {
	return strings.Join([]string{n.Key.Type, n.Key.ID, n.Name}, pageSeparator)
}

func afterReminder(list pageList, after string) (actor.ReminderName, error) {
	parts := strings.Split(after, pageSeparator)
	if len(parts) != 3 {
		return actor.ReminderName{}, errPagePosition
	}
	key, err := afterKey(list, parts[0], parts[1])
	return actor.ReminderName{Key: key, Name: parts[2]}, errors.Join(err, actor.ValidateStoredName(parts[2]))
}

func afterMessage(_ pageList, after string) (string, error) {
	if after == "" {
		return "", nil
	}
	return after, actor.ValidateMessageName(after)
}

func afterDeadLetter(_ pageList, after string) (reminder.DeadLetterID, error) {
	return reminder.ParseDeadLetterID(after)
}

// bucketPosition is the ID of a bucket's first token.
func bucketPosition(b actor.Bucket) string { return b.Token(0).String() }

func afterBucket(_ pageList, after string) (actor.Bucket, error) {
	id, err := actor.ParseReminderID(after)
	if err != nil || bucketPosition(id.Bucket()) != after {
		return actor.Bucket{}, errPagePosition
	}
	return id.Bucket(), nil
}

var errPagePosition = errors.New("not what a page of the list begins after")

// pageSize fills in the default; protovalidate has checked the bounds.
func pageSize[N int32 | uint32](asked N) int {
	if asked == 0 {
		return defaultPageSize
	}
	return int(asked)
}
