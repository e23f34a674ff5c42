package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
)

// soundRow is the condition that every row that this package wrote meets. A commit that keeps
// the state of a row that does not meet the condition is refused.
const soundRow = `(a.version > 0 AND a.format BETWEEN 0 AND 2 AND (a.state IS NULL) = (a.format = 0)
	AND a.life >= 0 AND a.generation >= 0 AND a.state_schema BETWEEN 0 AND 4294967295)`

// storedRow is a row as the database has it.
type storedRow struct {
	version, life, generation, schema int64
	commitID                          uuid
	deleted                           bool
	format                            int16
	state                             []byte
	updatedAt                         time.Time
	spawned                           bool
	methodSet                         string
	born                              *time.Time
}

// targets are what the columns of a load, from version on, are scanned into.
func (r *storedRow) targets() []any {
	return []any{&r.version, &r.commitID, &r.life, &r.deleted, &r.generation, &r.schema, &r.format, &r.state, &r.updatedAt, &r.spawned, &r.methodSet, &r.born}
}

// row returns the row, and what is wrong with it if somebody else wrote it.
func (r *storedRow) row() (actor.Row, string) {
	switch {
	case r.version <= 0:
		return actor.Row{}, fmt.Sprintf("its version is %d", r.version)
	case r.format < 0 || r.format > int16(actor.FormatEnvelope):
		return actor.Row{}, fmt.Sprintf("its format is %d", r.format)
	case r.schema < 0 || r.schema > 1<<32-1 || r.generation < 0 || r.life < 0:
		return actor.Row{}, "a number in it is out of range"
	case (r.state == nil) != (r.format == int16(actor.FormatNone)):
		return actor.Row{}, "its state does not go with its format"
	}
	var born time.Time
	if r.born != nil {
		born = r.born.UTC()
	}
	return actor.Row{
		Version: uint64(r.version), CommitID: actor.CommitID(r.commitID), Life: uint64(r.life), Deleted: r.deleted,
		Generation: uint64(r.generation), StateSchema: uint32(r.schema),
		State:     actor.EncodedState{Format: actor.StateFormat(r.format), Data: r.state},
		UpdatedAt: r.updatedAt.UTC(),
		Spawned:   r.spawned, MethodSet: r.methodSet, Born: born,
	}, ""
}

// addressable is the version under which a damaged row may be replaced, 0 if its
// version is one that no commit can name.
func addressable(version int64) uint64 { return uint64(max(0, version)) }

// querier is a pool, a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// each calls visit with each row that a statement returns, scanned into targets.
func each(ctx context.Context, q querier, targets []any, visit func() error, statement string, args ...any) error {
	rows, err := q.Query(ctx, statement, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, targets, visit)
	return err
}
