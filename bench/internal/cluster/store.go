package cluster

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/store/embedded"
)

const clusterName = "bench"

// openStore opens a store in a new folder, which remove removes.
func openStore(ctx context.Context) (db *embedded.Store, remove func() error) {
	dir := must.Get(os.MkdirTemp("", "greenroom-bench-"))
	db, err := embedded.Open(ctx, embedded.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		must.Check(errors.Join(err, os.RemoveAll(dir)))
	}
	return db, func() error { return errors.Join(db.Close(), os.RemoveAll(dir)) }
}
