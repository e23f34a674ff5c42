package children

import "github.com/greenroom-run/greenroom/actor"

// ErrUnrelated refuses to reach a volatile child that is gone, or that belongs to another family. It does not
// say which, since actors of other families may not know.
var ErrUnrelated error = &actor.ReasonError{Condition: actor.ErrPassedAway, Reason: "it is no volatile child that lives, of this actor or of its parent"}
