package sqlstore

import (
	"regexp"
	"strings"
	"testing"
)

// TestWithClausesReturnColumns holds every statement to a rule of CockroachDB's
// that PostgreSQL does not have: a WITH clause without columns is refused, even
// where nothing refers to it.
func TestWithClausesReturnColumns(t *testing.T) {
	begin := regexp.MustCompile(`\bAS (MATERIALIZED )?\(`)
	clauses := 0
	for _, statement := range []string{updateGroup, updateOne, insertGroup, writeCommits, readVersions, readRecords, removePlaced,
		removeExpired, fenceUpdates, readFences, sweepTombstones, sweepRecords, placeRow, removeHeld, lockRow, loadHead, probeRows} {
		if !strings.HasPrefix(statement, "WITH ") {
			continue
		}
		for _, at := range begin.FindAllStringIndex(statement, -1) {
			body := strings.TrimSpace(inParentheses(statement[at[1]:]))
			switch verb, _, _ := strings.Cut(body, " "); verb {
			case "INSERT", "UPDATE", "DELETE":
				clauses++
				if !strings.Contains(body, "RETURNING") {
					t.Errorf("a WITH clause returns nothing: %s", body)
				}
			}
		}
	}
	if clauses < 2 {
		t.Errorf("%d WITH clauses that write were found; writeCommits has two", clauses)
	}
}

// inParentheses returns text up to the parenthesis that closes it.
func inParentheses(text string) string {
	depth := 1
	for i, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return text[:i]
			}
		}
	}
	return text
}
