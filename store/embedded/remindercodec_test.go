package embedded

import (
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// someReminder draws a record, of which each field is set or not.
func someReminder(rng *rand.Rand) *reminderRecord {
	text := func() string { return strings.Repeat("é", rng.IntN(3)) + "x"[:rng.IntN(2)] }
	number := func() int64 { return int64(rng.Uint64()) >> rng.IntN(64) }
	r := &reminderRecord{
		App: text(), Type: text(), ID: text(), Name: text(), Prefix: actor.Prefix(rng.Uint32()), Vector: text(), Token: rng.Uint32(),
		Version: rng.Uint64(), ContentType: text(), Due: number(), FireAt: number(), Left: rng.Uint32(), Failures: rng.Uint32(),
		Paused: rng.IntN(2) > 0, LastError: text(), CreatedAt: number(), UpdatedAt: number(),
		SpecRecord: store.SpecRecord{
			Method: text(), At: number(), Every: number(), Cron: text(), Zone: text(), Times: rng.Uint32(), Jitter: number(),
			Missed: uint8(rng.UintN(256)), Limit: rng.Uint32(), After: number(), Failure: uint8(rng.UintN(256)), Attempts: rng.Uint32(),
			Interval: number(), Max: number(),
		},
	}
	if n := rng.IntN(3); n > 0 {
		r.Payload = []byte(strings.Repeat("\x00\x01", n))
		until := number()
		r.Until = &until
		r.Metadata = map[string]string{}
		for ; n > 0; n-- {
			r.Metadata[strings.Repeat("k", n)] = text()
		}
	}
	return r
}

// What is written of a reminder is read again, as it was written as JSON, too.
func TestReminderIsReadAsWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		want := someReminder(rng)
		old, err := encodeRecord([]byte("key"), want)
		if err != nil {
			t.Fatal(err)
		}
		for form, value := range map[string][]byte{"compact": encodeReminder([]byte("key"), want), "JSON": old} {
			var got reminderRecord
			if err := decodeReminder([]byte("key"), value, &got); err != nil || !reflect.DeepEqual(&got, want) {
				t.Fatalf("%s: %+v, %v, want %+v", form, got, err, want)
			}
			if err := decodeReminder([]byte("other"), value, &got); err == nil {
				t.Fatalf("%s: read under another key", form)
			}
		}
	}
}

// Whatever is behind a checksum that is right, reading it ends with an error or a record.
func TestReminderOfAnyBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		data := encodeReminder(nil, someReminder(rng))[5:]
		if err := new(reminderRecord).decode(data[:rng.IntN(len(data))]); err == nil {
			t.Fatal("read of a part")
		}
		data[rng.IntN(len(data))] = byte(rng.UintN(256))
		_ = new(reminderRecord).decode(data)
	}
	if err := new(reminderRecord).decode(append(encodeReminder(nil, &reminderRecord{})[5:], 0)); err == nil {
		t.Error("read with something behind it")
	}
}

// Who keeps a field of a record, as an actor keeps its ID for as long as it is in memory,
// does not keep the record with its payload.
func TestFieldOfReminderKeepsNothingElse(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // of a test
	}
	value := encodeReminder([]byte("key"), &reminderRecord{ID: "an actor's", Payload: make([]byte, 64<<10)})
	ids := make([]string, 1000)
	before := heap()
	for i := range ids {
		var r reminderRecord
		if err := decodeReminder([]byte("key"), value, &r); err != nil {
			t.Fatal(err)
		}
		ids[i] = r.ID
	}
	if grown := heap() - before; grown > 5<<20 {
		t.Errorf("%d IDs keep %d MiB", len(ids), grown>>20)
	}
	runtime.KeepAlive(ids)
	runtime.KeepAlive(value)
}
