package serving

// Lane is the way in which a turn holds its actor still.
type Lane uint8

// The lanes; the comment of package host says what each one promises.
const (
	LaneNone      Lane = iota // refused before a lane was chosen; in a TurnEnd also: no deployment has the type
	LaneWarm                  // ring and sticky types
	LaneLocked                // any types
	LaneReadOnly              // read-only methods
	LaneStateless             // stateless types
	LaneCopy                  // read-only methods of actors that another host holds
	LaneCalled                // turns that other turns call
)

// String returns the name that metrics use.
func (l Lane) String() string {
	switch l {
	case LaneWarm:
		return "warm"
	case LaneLocked:
		return "locked"
	case LaneReadOnly:
		return "read_only"
	case LaneStateless:
		return "stateless"
	case LaneCopy:
		return "copy"
	case LaneCalled:
		return "called"
	default:
		return "none"
	}
}
