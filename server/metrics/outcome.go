package metrics

import "github.com/greenroom-run/greenroom/server/failure"

// outcomeOK is the outcome of a turn or commit without an error; others are
// their kinds.
const outcomeOK = "ok"

// outcomeOf is an error's kind.
func outcomeOf(err error) string { return failure.Of(err, false).Detail.GetKind() }
