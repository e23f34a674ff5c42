package embedded_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
	"github.com/greenroom-run/greenroom/store/storetest"
)

func TestStore(t *testing.T) {
	t.Run("Folder", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store {
			return open(t, embedded.Config{Dir: t.TempDir()})
		})
	})
	t.Run("Memory", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store {
			return open(t, embedded.Config{Dir: "data", FS: vfs.NewMem()})
		})
	})
}

// open opens a store and closes it when the test ends.
func open(t testing.TB, cfg embedded.Config) *embedded.Store {
	t.Helper()
	s, err := embedded.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
