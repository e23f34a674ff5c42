package storetest

import (
	"context"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// modelIDs are few, so that operations meet, and such that order matters.
var modelIDs = []string{"a", "a!", "a||", "a||state", "b", "é", "😀"}

func newModel(t *testing.T, s store.Store, app string) *model {
	t.Helper()
	row, err := s.AllocateBucket(t.Context(), app, "creator", actor.Vector([]byte("messages")))
	if err != nil {
		t.Fatal(err)
	}
	return &model{
		ctx: t.Context(), s: s, app: app, rows: make(map[string]actor.Row), calls: make(map[modelCall]modelRecord), bucket: row.Bucket,
		messages: make(map[actor.ReminderName]actor.Reminder), dead: make(map[actor.ReminderID]string), gone: make(map[string][]actor.Reminder), changed: make(map[string]bool),
	}
}

// model is what a store must show: the contract, as a map.
type model struct {
	ctx  context.Context
	s    store.Store
	app  string
	rows map[string]actor.Row // by ID; UpdatedAt is not modelled
	// calls are what is recorded; nothing of it expires.
	calls map[modelCall]modelRecord
	// sent are commits that were tried, for Settle.
	sent []actor.Commit
	// messages are those that nobody has consumed, gone are earlier states of them, and dead why some
	// were given up. bucket has their tokens, and sends orders them.
	messages map[actor.ReminderName]actor.Reminder
	gone     map[string][]actor.Reminder // by receiver
	dead     map[actor.ReminderID]string
	changed  map[string]bool // the receivers, since the last comparison
	bucket   actor.Bucket
	token    uint32
	sends    uint64
}

func (m *model) key(id string) actor.Key { return actor.Key{App: m.app, Type: "Cart", ID: id} }

// modelCall is what a record stands under, modelRecord what it says and which
// commit wrote it.
type (
	modelCall   struct{ id, method, key string }
	modelRecord struct {
		record actor.IdempotencyRecord
		commit actor.CommitID
	}
)
