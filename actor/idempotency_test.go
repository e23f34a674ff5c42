package actor

import (
	"strings"
	"testing"
)

func TestValidateIdempotencyKey(t *testing.T) {
	for _, tt := range []struct {
		name, key string
		want      string // part of the error; empty: valid
	}{
		{"a UUID", "8e03978e-40d5-43e8-bc93-6894a57f9324", ""},
		{"every printable byte", " !\"#$%&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~", ""},
		{"longest", strings.Repeat("k", 255), ""},
		{"empty", "", "is empty"},
		{"too long", strings.Repeat("k", 256), "has 256 bytes; at most 255"},
		{"tab", "a\tb", "byte 0x09 at byte 1"},
		{"delete", "\x7f", "byte 0x7f at byte 0"},
		{"not ASCII", "é", "byte 0xc3 at byte 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := ValidateIdempotencyKey(tt.key)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("ValidateIdempotencyKey(%q) = %v, want %q", tt.key, err, tt.want)
			}
		})
	}
}

// TestAnsweredBy: the record of a key has the reply to an invocation of the same method of the same actor,
// also where it is done, and none to others.
func TestAnsweredBy(t *testing.T) {
	key := Key{App: "default", Type: "T", ID: "i"}
	inv := Invocation{Key: key, Method: "Add", IdempotencyKey: "k"}
	for _, tt := range []struct {
		name   string
		change func(*IdempotencyRecord)
		want   bool
	}{
		{"its own", func(*IdempotencyRecord) {}, true},
		{"its own, done", func(r *IdempotencyRecord) { r.Method = donePrefix + "Add" }, true},
		{"another key's", func(r *IdempotencyRecord) { r.Key = "l" }, false},
		{"another method's", func(r *IdempotencyRecord) { r.Method = "Take" }, false},
		{"another actor's", func(r *IdempotencyRecord) { r.Actor.ID = "j" }, false},
		{"a mark", func(r *IdempotencyRecord) { r.Mark = new(KeyedCall) }, false},
	} {
		r := IdempotencyRecord{Actor: key, Method: "Add", Key: "k"}
		tt.change(&r)
		if got := inv.AnsweredBy(&r); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

func TestPayloadSum(t *testing.T) {
	sums := map[[32]byte]string{}
	for name, p := range map[string]Payload{
		"JSON":                 {ContentType: "application/json", Data: []byte(`{"n":1}`)},
		"other bytes":          {ContentType: "application/json", Data: []byte(`{"n":2}`)},
		"other content type":   {ContentType: "text/plain", Data: []byte(`{"n":1}`)},
		"a boundary elsewhere": {ContentType: "text/plai", Data: []byte(`n{"n":1}`)},
		"nothing":              {},
	} {
		sum := PayloadSum(p)
		if other, ok := sums[sum]; ok {
			t.Errorf("%s and %s have the same sum", name, other)
		}
		sums[sum] = name
	}
	if PayloadSum(Payload{Data: []byte("1")}) != PayloadSum(Payload{ContentType: ContentTypeJSON, Data: []byte("1")}) {
		t.Error("no content type is not the same as JSON")
	}
}

func TestAnchor(t *testing.T) {
	row := func(id string) Key { return Key{App: "a", Type: "T", ID: id} }
	records := []IdempotencyRecord{{Actor: row("r"), Method: "Add", Key: "k"}}
	write, fence := RowWrite{Key: row("w"), ReadVersion: 3, NewVersion: 4}, RowFence{Key: row("f"), Version: 7}
	for _, tt := range []struct {
		name   string
		c      Commit
		want   RowFence
		oneRow bool
	}{
		{"a row", CommitOf(write), RowFence{Key: row("w"), Version: 3}, true},
		{"two rows", CommitOf(write, RowWrite{Key: row("x")}), RowFence{Key: row("w"), Version: 3}, false},
		{"a row and a record", Commit{Rows: []RowWrite{write}, Records: records}, RowFence{Key: row("w"), Version: 3}, false},
		{"a row and a fence", Commit{Rows: []RowWrite{write}, Fences: []RowFence{fence}}, RowFence{Key: row("w"), Version: 3}, false},
		{"a fence and a record", Commit{Fences: []RowFence{fence}, Records: records}, fence, false},
		{"a record", Commit{Records: records}, RowFence{}, false},
	} {
		if got := tt.c.Anchor(); got != tt.want {
			t.Errorf("the anchor of %s is %+v", tt.name, got)
		}
		if got := tt.c.OneRow(); got != tt.oneRow {
			t.Errorf("OneRow of %s is %t", tt.name, got)
		}
	}
}
