package sqlstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
	"github.com/greenroom-run/greenroom/store/sqlstore"
	"github.com/greenroom-run/greenroom/store/storetest"
)

func openFolder(t *testing.T, dir string) (*embedded.Store, error) {
	t.Helper()
	s, err := embedded.Open(t.Context(), embedded.Config{Dir: dir, MinFreeBytes: -1})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func folder(t *testing.T) *embedded.Store {
	t.Helper()
	s, err := openFolder(t, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCopyBetweenStores: from a folder to each database, to another database, and back.
func TestCopyBetweenStores(t *testing.T) {
	for name, url := range engines(t) {
		t.Run(name, func(t *testing.T) {
			storetest.RunCopy(t, folder(t), open(t, url(t)), open(t, pgtest.URL(t)), folder(t))
		})
	}
}

// TestUnfinishedCopy: what a copy that was cut off has left is never taken for a store.
func TestUnfinishedCopy(t *testing.T) {
	url := pgtest.URL(t)
	storetest.UnfinishedCopy(t, open(t, url))
	if s, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: url}); !errors.Is(err, store.ErrUnfinishedCopy) {
		t.Errorf("database: %v, %v", s, err)
	}
	dir := t.TempDir()
	s, err := openFolder(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	storetest.UnfinishedCopy(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := openFolder(t, dir); !errors.Is(err, store.ErrUnfinishedCopy) {
		t.Errorf("folder: %v, %v", s, err)
	}
}

// TestCopyWhileServed: a database that a server uses is neither copied nor copied into, and
// is as it was afterwards.
func TestCopyWhileServed(t *testing.T) {
	url := pgtest.URL(t)
	s := open(t, url)
	host, err := s.RegisterHost(t.Context(), actor.Host{ID: "h", Name: "web"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	none := func(store.CopyCounts) {}
	if _, err := store.Copy(t.Context(), s, folder(t), none); err == nil {
		t.Error("a store that is served was copied")
	}
	if _, err := store.Copy(t.Context(), folder(t), s, none); err == nil {
		t.Error("a store was copied into one that is served")
	}
	if err := s.RemoveHost(t.Context(), host.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Copy(t.Context(), folder(t), open(t, url), none); err != nil {
		t.Error(err)
	}
}

// TestCopyEndsAtDamage: what cannot be read is neither left out nor taken for an empty state.
func TestCopyEndsAtDamage(t *testing.T) {
	url := pgtest.URL(t)
	s := open(t, url)
	k := actor.Key{App: "a", Type: "T", ID: "i"}
	row := actor.RowWrite{Key: k, NewVersion: actor.FirstVersion(), State: &actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{}`)}}
	if err := errors.Join(s.Commit(t.Context(), []actor.Commit{actor.CommitOf(row)})...); err != nil {
		t.Fatal(err)
	}
	execute(t, url, `UPDATE greenroom_actor SET format = 9 WHERE id = $1`, k.ID)
	if _, err := store.Copy(t.Context(), s, folder(t), func(store.CopyCounts) {}); !errors.Is(err, actor.ErrStateDamaged) {
		t.Errorf("the copy ended with %v", err)
	}
}
