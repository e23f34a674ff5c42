package children

import "github.com/greenroom-run/greenroom/actor"

// ErrUnrelated is the error of what names a volatile child that is gone, or that is not of the family
// of who names it: which of the two is not for strangers to know.
var ErrUnrelated error = &actor.ReasonError{Condition: actor.ErrPassedAway, Reason: "it is no volatile child that lives, of this actor or of its parent"}
