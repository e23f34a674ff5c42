package rpc

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
)

func TestPageToken(t *testing.T) {
	list := pageList{"/x/List", "default", "Counter"}
	for _, after := range []string{"a", "a/b", "..", "a b", "%2F", "||", "a?b=c", "é", "🎭", "\\", "\"", strings.Repeat("x", actor.MaxIDLen)} {
		token := pageToken(list, after)
		if len(token) > 1024 {
			t.Errorf("token of %d bytes; the API takes 1024", len(token))
		}
		if got, err := parsePageToken(list, token, afterActor); err != nil || got != after {
			t.Errorf("%q: got %q, %v", after, got, err)
		}
	}
	if got, err := parsePageToken(list, "", afterActor); got != "" || err != nil {
		t.Errorf("first page: %q, %v", got, err)
	}
}

func TestPageTokenOfAnotherListIsRefused(t *testing.T) {
	token := pageToken(pageList{"/x/List", "default", "Counter"}, "a")
	for _, list := range []pageList{
		{"/y/List", "default", "Counter"}, {"/x/List", "other", "Counter"}, {"/x/List", "default", "Cart"},
	} {
		if _, err := parsePageToken(list, token, afterActor); err == nil {
			t.Errorf("%v took a token of another list", list)
		}
	}
	for _, bad := range []string{"x", "!", "AAAA", token[:len(token)-1], token + "A", base64.RawURLEncoding.EncodeToString(make([]byte, 700))} {
		if _, err := parsePageToken(pageList{"/x/List", "default", "Counter"}, bad, afterActor); err == nil {
			t.Errorf("token %q was taken", bad)
		}
	}
}

// TestPagePositions: only what a page can begin after is one.
func TestPagePositions(t *testing.T) {
	list := pageList{"/x/List", "default", "T"}
	bucket := actor.ReminderID{Prefix: 7, Vector: actor.Vector([]byte("abcdefgh"))}
	inside := bucket
	inside.Token++
	for after, reads := range map[string]func(string) error{
		"generation": func(s string) error { _, err := afterGeneration(list, s); return err },
		"reminder":   func(s string) error { _, err := afterReminder(list, s); return err },
		"bucket":     func(s string) error { _, err := afterBucket(list, s); return err },
	} {
		good := map[string]string{"generation": "2", "reminder": "T\x00y\x00z", "bucket": bucket.String()}[after]
		if err := reads(good); err != nil {
			t.Errorf("%s %q: %v", after, good, err)
		}
		for _, bad := range map[string][]string{
			"generation": {"", "0", "1", "02", "+2", "-2"}, "reminder": {"T\x00y\x00", "T\x00\x00z", "T\x00y\x00\x03z"}, "bucket": {inside.String()},
		}[after] {
			if reads(bad) == nil {
				t.Errorf("%s %q was taken", after, bad)
			}
		}
	}
}

// TestPagePositionsOfMessagesAndCursors: a list of reminders may go no further than to one of them.
func TestPagePositionsOfMessagesAndCursors(t *testing.T) {
	list, key := pageList{"/x/List", "default", "T"}, actor.Key{App: "default", Type: "T", ID: "y"}
	id := actor.ReminderID{Prefix: 7, Token: 41, Vector: actor.Vector([]byte("abcdefgh"))}
	for _, name := range []string{actor.CursorName(key), actor.UnorderedMessageName(id)} {
		want := actor.ReminderName{Key: key, Name: name}
		got, err := parsePageToken(list, pageToken(list, reminderPosition(want)), afterReminder)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
}

// FuzzPageToken: what a list takes as a position is what it would write.
func FuzzPageToken(f *testing.F) {
	id := actor.ReminderID{Prefix: 7, Token: 41, Vector: actor.Vector([]byte("abcdefgh"))}
	for _, after := range []string{
		"a", "2", "18446744073709551616", "-1", "A-1-abcdefgh-99999999999999999999", strings.Repeat("0a", 32), stickyPosition(actor.Key{Type: "T", ID: "a/b"}),
		reminderPosition(actor.ReminderName{Key: actor.Key{Type: "T", ID: "a||b"}, Name: "n"}),
		reminder.DeadLetterID{Reminder: id, Due: time.Unix(-1, 0)}.String(), bucketPosition(id.Bucket()), "x\x00y", "",
	} {
		f.Add(after)
	}
	f.Fuzz(func(t *testing.T, after string) {
		for _, list := range []pageList{{"/x/List", "default", ""}, {"/x/List", "default", "T"}} {
			written := func(p string, err error) {
				if err == nil && p != after {
					t.Errorf("%q was read as %q", after, p)
				}
			}
			written(readAgain(list, after, afterApp, func(s string) string { return s }))
			written(readAgain(list, after, afterActor, func(s string) string { return s }))
			written(readAgain(list, after, afterModule, func(d actor.Digest) string { return string(d) }))
			written(readAgain(list, after, afterGeneration, generationPosition))
			written(readAgain(list, after, afterSticky, stickyPosition))
			written(readAgain(list, after, afterReminder, reminderPosition))
			written(readAgain(list, after, afterDeadLetter, reminder.DeadLetterID.String))
			written(readAgain(list, after, afterBucket, bucketPosition))
		}
	})
}

// readAgain returns what write makes of the position that read reads.
func readAgain[P any](list pageList, after string, read func(pageList, string) (P, error), write func(P) string) (string, error) {
	p, err := parsePageToken(list, pageToken(list, after), read)
	if err != nil {
		return "", err
	}
	return write(p), nil
}
