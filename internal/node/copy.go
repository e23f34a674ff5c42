package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
	"github.com/greenroom-run/greenroom/store/sqlstore"
)

// A StorePlace is where a node's store is: one of both, as in [Config].
type StorePlace struct{ DataDir, StoreURL string }

// CopyCounts is how many things of each kind [CopyStore] copied.
type CopyCounts = store.CopyCounts

// CopyStore copies all of one store into an empty one while no node uses either, and calls
// progress now and then. The key of secrets is in neither.
func CopyStore(ctx context.Context, from, to StorePlace, logger *slog.Logger, progress func(CopyCounts)) (n CopyCounts, err error) {
	if from.DataDir != "" {
		if _, err := os.Stat(storeFolder(from.DataDir)); err != nil {
			return n, fmt.Errorf("there is no store in %s (%w); name the --data-dir of a server", from.DataDir, err)
		}
	}
	source, closeSource, err := openMovable(ctx, from, logger)
	if err != nil {
		return n, fmt.Errorf("the store to copy from: %w", err)
	}
	defer func() { err = errors.Join(err, closeSource()) }()
	target, closeTarget, err := openMovable(ctx, to, logger)
	if err != nil {
		return n, fmt.Errorf("the store to copy to: %w", err)
	}
	defer func() { err = errors.Join(err, closeTarget()) }()
	return store.Copy(ctx, source, target, progress)
}

func openMovable(ctx context.Context, at StorePlace, logger *slog.Logger) (store.Movable, func() error, error) {
	if at.StoreURL != "" {
		s, err := sqlstore.Open(ctx, sqlstore.Config{URL: at.StoreURL, Logger: logger})
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	s, err := embedded.Open(ctx, embedded.Config{Dir: storeFolder(at.DataDir), Logger: logger})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

func storeFolder(dataDir string) string { return filepath.Join(dataDir, "store") }
