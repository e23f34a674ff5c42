package actor

// Cause is what caused a turn. Admission decides it once; what follows from it is asked of
// it everywhere else.
type Cause uint8

// The causes of turns.
const (
	CauseCall        Cause = iota
	CauseKeyedCall         // a call with an idempotency key
	CauseFiring            // a reminder
	CauseTimer             // a timer
	CauseMessage           // a message of another actor, or from outside
	CauseUndelivered       // a message that nobody consumed and that comes back to its sender
	CauseTell              // a volatile message
	CauseNotice            // a volatile message that comes back, or a notice of a watch
)

// Recorded reports whether the commit of the turn contains a record of the cause, even if the
// turn changes nothing else: a repetition finds it. So the turn may run again after
// it has sent something to the outside.
func (c Cause) Recorded() bool { return c == CauseKeyedCall || c.Fires() }

// Fires reports whether a [Firing] asks for the turn: of a reminder or of a message.
func (c Cause) Fires() bool {
	return c == CauseFiring || c == CauseMessage || c == CauseUndelivered
}

// KeepsActive reports whether the turn counts as a use of its actor.
func (c Cause) KeepsActive() bool { return c != CauseTimer }
