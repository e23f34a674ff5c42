package sqlstore

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// scan is a scan that is under way. An attempt goes on after the last row that the one before
// it has got.
type scan struct {
	store.ActorScan
	dialect  dialect
	visit    func(row *store.ScannedActor) (more bool)
	examined int
	next     string
}

// read is one attempt.
func (r *scan) read(ctx context.Context, conn querier, asOf string) error {
	statement, args := r.statement(asOf)
	// Filters make many statements: they do not push out what is prepared.
	rows, err := conn.Query(ctx, statement, append([]any{pgx.QueryExecModeDescribeExec}, args...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	before := r.examined
	r.next = ""
	var n, version, generation, schema, size, life int64
	var at time.Time
	var full, wanted, sound, spawned bool
	var format int16
	var id, set string
	var state pgtype.DriverBytes // it is not copied
	var row store.ScannedActor
	for rows.Next() {
		err := rows.Scan(&n, &full, &wanted, &id, &version, &generation, &schema, &format, &size, &at, &life, &spawned, &set, &sound, &state)
		if err != nil {
			return err
		}
		r.After, r.examined = id, before+int(n)
		if full || r.examined == r.Limit {
			r.next = id
		}
		if !wanted {
			continue
		}
		row = store.ScannedActor{ActorInfo: store.ActorInfo{Key: actor.Key{App: r.App, Type: r.Type, ID: id}}}
		if sound {
			row.Version, row.Generation, row.StateSchema, row.UpdatedAt = uint64(version), uint64(generation), uint32(schema), at.UTC()
			row.StateSize, row.Life, row.Spawned, row.MethodSet = size, uint64(life), spawned, set
			if r.States {
				row.State = actor.EncodedState{Format: actor.StateFormat(format), Data: state}
			}
		} else {
			row.Version, row.Damaged = addressable(version), true
		}
		if !r.visit(&row) {
			r.next = id
			return nil
		}
	}
	return rows.Err()
}

// statement selects the rows that are wanted, and the last one that is examined in any case:
// it tells how many there were.
func (r *scan) statement(asOf string) (string, []any) {
	most := int64(math.MaxInt64)
	state := "NULL::bytea"
	if r.States {
		state = "a.state"
		if r.MaxBytes > 0 {
			most = r.MaxBytes
		}
	}
	args := []any{r.App, r.Type, r.After, r.Limit - r.examined, most}
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	within := ""
	if r.From != "" {
		within += " AND a.id >= " + arg(r.From)
	}
	if r.Before != "" {
		within += " AND a.id < " + arg(r.Before)
	}
	documents, excluded := "", ""
	if r.States && r.dialect == postgres && len(r.Exclusions) > 0 { // what CockroachDB's jsonb does is not proven to be the same
		documents, excluded = excluding(r.Exclusions, arg)
	}
	return `SELECT x.n, x.ahead + x.size >= $5, x.live` + excluded + `, x.id, x.version, x.generation, x.state_schema, x.format, x.size, x.updated_at,
			x.life, x.spawned, x.method_set, x.sound, x.state
		FROM (
			SELECT e.*, row_number() OVER w AS n, lead(e.id) OVER w IS NULL AS last, (sum(e.size) OVER w - e.size)::int8 AS ahead FROM (
				SELECT a.id, a.deleted_at IS NULL AS live, a.version, a.generation, a.state_schema, a.format, COALESCE(octet_length(a.state), 0)::int4 AS size,
					a.updated_at, a.life, a.spawned, a.method_set, ` + soundRow + ` AS sound, ` + state + ` AS state
				FROM greenroom_actor AS a WHERE a.app = $1 AND a.type = $2 AND a.id > $3` + within + `
				ORDER BY a.app, a.type, a.id LIMIT $4
			) AS e WINDOW w AS (ORDER BY e.id ROWS UNBOUNDED PRECEDING)
		) AS x` + documents + asOf + `
		WHERE x.ahead < $5 AND (x.last OR x.ahead + x.size >= $5 OR x.live` + excluded + `)
		ORDER BY x.id`, args
}

// excluding returns further tables of the statement, with the members of each state, and the
// condition that no exclusion holds. No part of the condition is null. OFFSET 0 has PostgreSQL
// read each document once.
func excluding(exclusions []store.Exclusion, arg func(v any) string) (documents, condition string) {
	var tables, tests strings.Builder
	tables.WriteString(` CROSS JOIN LATERAL (SELECT CASE WHEN x.live AND x.format = 1 AND x.ahead < $5 THEN convert_from(x.state, 'UTF8')::jsonb END AS doc OFFSET 0) AS d
		CROSS JOIN LATERAL (SELECT `)
	for i, e := range exclusions {
		if i > 0 {
			tables.WriteString(", ")
		}
		path := e.Path
		if e.Test == store.Absent {
			path = path[:len(path)-1]
		}
		tables.WriteString("d.doc")
		for _, name := range path {
			tables.WriteString(" -> " + arg(name) + "::text")
		}
		member := fmt.Sprintf("m%d", i)
		tables.WriteString(" AS " + member)
		member = "m." + member
		holds := "false"
		switch text := "(" + member + ` #>> '{}') COLLATE "C"`; e.Test {
		case store.NumberBetween:
			number := "(" + member + ")::numeric"
			holds = "true"
			if e.Low != "" {
				holds += " AND " + number + " >= " + arg(e.Low) + "::text::numeric"
			}
			if e.High != "" {
				holds += " AND " + number + " <= " + arg(e.High) + "::text::numeric"
			}
			holds = when(member, "number", holds)
		case store.StringIs:
			holds = when(member, "string", text+" = "+arg(e.Text)+"::text")
		case store.StringOtherThan:
			holds = when(member, "string", text+" <> "+arg(e.Text)+"::text")
		case store.BoolTrue:
			holds = when(member, "boolean", member+" = 'true'::jsonb")
		case store.BoolFalse:
			holds = when(member, "boolean", member+" = 'false'::jsonb")
		case store.Absent:
			holds = when(member, "object", "NOT jsonb_exists("+member+", "+arg(e.Path[len(e.Path)-1])+"::text)")
		}
		tests.WriteString(" AND NOT " + holds)
	}
	tables.WriteString(" OFFSET 0) AS m")
	return tables.String(), tests.String()
}

// when is a condition that is false of a member of another kind.
func when(member, kind, condition string) string {
	return "CASE WHEN jsonb_typeof(" + member + ") = '" + kind + "' THEN " + condition + " ELSE false END"
}
