package sqlstore_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/store/sqlstore"
)

var isStatement = regexp.MustCompile(`^(SELECT|INSERT|UPDATE|DELETE|WITH)\s`)

// What one database takes and the other does not.
var (
	ofPostgres  = regexp.MustCompile(`set_config\('synchronous_commit'|pg_terminate_backend|\nJOIN .*\n.*SKIP LOCKED|jsonb_typeof`)
	ofCockroach = regexp.MustCompile(`AS OF SYSTEM TIME|INNER LOOKUP JOIN`)
)

// checkStatements checks all statements of this package: those that the contract had
// stores send, and those that no test of the contract has them send.
func checkStatements(t *testing.T, sent []string) {
	all := slices.DeleteFunc(sent, func(text string) bool { return !isStatement.MatchString(text) })
	t.Run("are known", func(t *testing.T) {
		joined := strings.Join(all, "\n")
		for text, whole := range statementsInSource(t, "*.go") {
			switch {
			case strings.Contains(joined, text):
			case whole:
				all = append(all, text)
			default:
				t.Errorf("no test of the contract has a store send what begins with\n%s", text)
			}
		}
	})
	url, ok := pgtest.CockroachURL(t)
	if !ok {
		return
	}
	cockroach := session(t, url)
	t.Run("have the same types on both databases", func(t *testing.T) {
		postgres := session(t, pgtest.URL(t))
		for _, text := range all {
			if ofPostgres.MatchString(text) || ofCockroach.MatchString(text) {
				continue
			}
			if p, c := typesOf(t, postgres, text), typesOf(t, cockroach, text); p != c {
				t.Errorf("PostgreSQL reads %s\nCockroachDB reads %s\n%s", p, c, text)
			}
		}
	})
	t.Run("scan no table on CockroachDB", func(t *testing.T) {
		copies := statementsInSource(t, "copier.go") // of whole stores, in a session that may scan
		for day, rows := range []int{unknown, 0, 40, 1_000_000} {
			setStatistics(t, cockroach, rows, day)
			for _, text := range all {
				if _, ok := copies[text]; ok || ofPostgres.MatchString(text) || strings.Contains(text, "AS OF SYSTEM TIME") { // the tables have no past
					continue
				}
				for _, elements := range []int{1, 0, 64, 256} {
					if elements != 1 && !strings.Contains(text, "[]") {
						continue
					}
					plan := planOf(t, cockroach, text, elements)
					if strings.Contains(plan, "FULL SCAN") {
						t.Errorf("with statistics of %d rows and arrays of %d elements:\n%s\n%s", rows, elements, text, plan)
					}
					if span, ranged := sqlstore.Spans[text]; ranged && !strings.Contains(plan, span) {
						t.Errorf("with statistics of %d rows, not within %s:\n%s\n%s", rows, span, text, plan)
					}
				}
			}
		}
	})
}

// statementsInSource returns the literals of files of this package that begin a statement, and
// whether it is whole as far as the literal's own expression says.
func statementsInSource(t *testing.T, pattern string) map[string]bool {
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]bool)
	add := func(n ast.Node, whole bool) {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil && isStatement.MatchString(text) && (whole || len(text) > len("SELECT ")) {
				texts[text] = whole
			}
		}
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			add(n, true)
			return true
		})
		ast.Inspect(file, func(n ast.Node) bool {
			if sum, ok := n.(*ast.BinaryExpr); ok {
				add(sum.X, false)
			}
			return true
		})
	}
	if len(texts) == 0 {
		t.Fatalf("no statement was found in %s", pattern)
	}
	return texts
}

// session returns a connection to a database with the tables of a store, and with the
// settings of its pools.
func session(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := openPatient(t, url).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

// typesOf returns the types of a statement's parameters and of what it returns.
func typesOf(t *testing.T, conn *pgx.Conn, text string) string {
	t.Helper()
	d, err := conn.Prepare(t.Context(), "", text)
	if err != nil {
		return err.Error()
	}
	name := func(oid uint32) string {
		if known, ok := conn.TypeMap().TypeForOID(oid); ok {
			return known.Name
		}
		return fmt.Sprint(oid)
	}
	var takes, returns []string
	for _, oid := range d.ParamOIDs {
		takes = append(takes, name(oid))
	}
	for _, f := range d.Fields {
		returns = append(returns, name(f.DataTypeOID))
	}
	return fmt.Sprint(takes, returns)
}

// unknown stands for a table without statistics.
const unknown = -1

// setStatistics has CockroachDB plan as if each table had so many rows, by statistics that
// are so many days old, which says when they have come to where it plans.
func setStatistics(t *testing.T, conn *pgx.Conn, count, days int) {
	t.Helper()
	if count == unknown {
		return // as the tables were made
	}
	rows, _ := conn.Query(t.Context(), `SELECT t.table_name::text, array_agg(c.column_name::text) FROM information_schema.tables AS t
		JOIN information_schema.columns AS c ON c.table_name = t.table_name AND c.table_schema = t.table_schema
		WHERE t.table_schema = 'public' AND t.table_type = 'BASE TABLE' GROUP BY t.table_name`)
	var table string
	var columns []string
	tables := make(map[string]string)
	if _, err := pgx.ForEachRow(rows, []any{&table, &columns}, func() error {
		var statistics []string
		for _, c := range columns {
			statistics = append(statistics, fmt.Sprintf(`{"columns": [%q], "created_at": %q, "row_count": %d, "distinct_count": %d, "null_count": 0, "avg_size": 8}`,
				c, time.Now().UTC().AddDate(0, 0, -days).Format(time.DateTime), count, count))
		}
		tables[table] = strings.Join(statistics, ",")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for table, statistics := range tables {
		if _, err := conn.Exec(t.Context(), "ALTER TABLE "+table+" INJECT STATISTICS '["+statistics+"]'"); err != nil {
			t.Fatal(err)
		}
	}
	for table := range tables {
		for !strings.Contains(explain(t, conn, "SELECT * FROM "+table), fmt.Sprintf("stats collected %d day", days)) {
			if t.Context().Err() != nil {
				t.Fatalf("the statistics of %s do not come", table)
			}
		}
	}
}

// planOf returns the plan of a statement with arrays of so many elements. The nth parameter
// has values around n, so that ranges are not empty.
func planOf(t *testing.T, conn *pgx.Conn, text string, elements int) string {
	t.Helper()
	d, err := conn.Prepare(t.Context(), "", text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var args []any
	for i, oid := range d.ParamOIDs {
		args = append(args, sample(t, oid, i+1, elements))
	}
	return explain(t, conn, text, args...)
}

func explain(t *testing.T, conn *pgx.Conn, text string, args ...any) string {
	t.Helper()
	rows, _ := conn.Query(t.Context(), "EXPLAIN "+text, args...)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return strings.Join(lines, "\n")
}

func sample(t *testing.T, oid uint32, n, elements int) any {
	switch oid {
	case pgtype.TextOID:
		return fmt.Sprint("t", n)
	case pgtype.Int8OID, pgtype.Int4OID, pgtype.Int2OID:
		return n
	case pgtype.UUIDOID:
		return pgtype.UUID{Bytes: [16]byte{byte(n)}, Valid: true}
	case pgtype.TimestamptzOID:
		return time.Unix(int64(n), 0)
	case pgtype.IntervalOID:
		return time.Duration(n) * time.Second
	case pgtype.ByteaOID:
		return []byte{byte(n)}
	}
	of := map[uint32]uint32{pgtype.TextArrayOID: pgtype.TextOID, pgtype.Int8ArrayOID: pgtype.Int8OID, pgtype.Int2ArrayOID: pgtype.Int2OID,
		pgtype.UUIDArrayOID: pgtype.UUIDOID, pgtype.ByteaArrayOID: pgtype.ByteaOID}[oid]
	if of == 0 {
		t.Fatalf("no sample of type %d", oid)
	}
	array := make([]any, elements)
	for i := range array {
		array[i] = sample(t, of, n+i, 0)
	}
	return array
}
