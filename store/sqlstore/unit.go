package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// closeTimeout bounds the goodbye to a server that may not listen any more.
const closeTimeout = time.Second

// sendUnit sends the statements of a batch up to one Sync, which both databases run as
// one implicit transaction, and passes each row that they return to row, which must not
// keep it. The rows count only if the error is nil. The context's deadline ends it, with
// the connection; a context that ends otherwise does not.
//
// The server runs a statement as soon as it has its Execute. All Binds go first, each to a
// portal of its own: so of a unit that arrives in part, since its sender vanished, nothing
// was run and no row is locked, unless it is the last few bytes that are missing.
func sendUnit(ctx context.Context, conn *pgx.Conn, b *pgx.Batch, row func(statement int, values [][]byte) error) error {
	if conn.Config().DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return sendBatch(ctx, conn, b, row) // the URL says that nothing may be prepared
	}
	wire := conn.PgConn()
	front := wire.Frontend()
	var params pgx.ExtendedQueryBuilder
	prepared := make([]*pgconn.StatementDescription, len(b.QueuedQueries))
	for i, q := range b.QueuedQueries {
		var err error
		if prepared[i], err = conn.Prepare(ctx, q.SQL, q.SQL); err != nil {
			return &notSentError{err}
		}
	}
	for i, q := range b.QueuedQueries {
		if err := params.Build(conn.TypeMap(), prepared[i], q.Arguments); err != nil {
			_ = wire.Close(ctx) // what was bound is not for the next unit
			return &notSentError{err}
		}
		front.SendBind(&pgproto3.Bind{
			DestinationPortal: portal(i), PreparedStatement: prepared[i].Name,
			ParameterFormatCodes: params.ParamFormats, Parameters: params.ParamValues, ResultFormatCodes: params.ResultFormats,
		})
	}
	for i := range b.QueuedQueries {
		front.SendExecute(&pgproto3.Execute{Portal: portal(i)})
	}
	front.SendSync(&pgproto3.Sync{})

	deadline, _ := ctx.Deadline()
	err := errors.Join(wire.Conn().SetDeadline(deadline), front.Flush())
	var refused error // by the server, which goes on to the Sync
	for done := 0; err == nil; {
		var m pgproto3.BackendMessage
		if m, err = wire.ReceiveMessage(context.Background()); err != nil {
			break
		}
		switch m := m.(type) {
		case *pgproto3.DataRow:
			err = row(done, m.Values)
		case *pgproto3.CommandComplete:
			done++
		case *pgproto3.ErrorResponse:
			refused = pgconn.ErrorResponseToPgError(m)
		case *pgproto3.ReadyForQuery:
			return errors.Join(refused, wire.Conn().SetDeadline(time.Time{}))
		}
	}
	// Whatever else the server may say, this connection is not for anybody any more.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = wire.Close(ctx)
	return cmp.Or(refused, err)
}

// portal names the place of a statement within its unit.
func portal(i int) string { return strconv.Itoa(i) }

// sendBatch is sendUnit in pgx's way, one statement after the other.
func sendBatch(ctx context.Context, conn *pgx.Conn, b *pgx.Batch, row func(statement int, values [][]byte) error) error {
	results := conn.SendBatch(ctx, b)
	for i := range b.Len() {
		rows, err := results.Query()
		for err == nil && rows.Next() {
			err = row(i, rows.RawValues())
		}
		if err == nil {
			rows.Close()
			err = rows.Err()
		}
		if err != nil {
			_ = results.Close()
			return err
		}
	}
	return results.Close()
}
