package protocol

// Ungrouped translates for a host of a version that knows no groups of types (before
// [WithGroups]): it divides each order about a group into one for each type, and joins their
// answers.
type Ungrouped struct {
	waits map[uint64]*ungroupedOrder // by version
}

type ungroupedOrder struct {
	types   map[TypeName]struct{} // that have not answered
	answers [][]Range
}

// NewUngrouped returns the translation for a session that begins.
func NewUngrouped() *Ungrouped { return &Ungrouped{waits: map[uint64]*ungroupedOrder{}} }

// Orders returns what the host gets in the place of an order.
func (u *Ungrouped) Orders(o Order) (orders []Order) {
	if o.Kind == Form {
		return nil
	}
	if o.Kind == Lock || o.Kind == Update {
		wait := &ungroupedOrder{types: make(map[TypeName]struct{}, len(o.Types))}
		for _, name := range o.Types {
			wait.types[name] = struct{}{}
		}
		u.waits[o.Version] = wait
	}
	for _, name := range o.Types {
		one := o
		one.Group, one.Types = 0, []TypeName{name}
		orders = append(orders, one)
	}
	return orders
}

// Answered takes the answer of one type. Once it was the last it returns all of them.
func (u *Ungrouped) Answered(name TypeName, version uint64, ranges []Range) (answers [][]Range, all bool) {
	wait := u.waits[version]
	if wait == nil {
		return nil, false
	}
	if _, asked := wait.types[name]; asked {
		delete(wait.types, name)
		wait.answers = append(wait.answers, ranges)
	}
	if len(wait.types) > 0 {
		return nil, false
	}
	delete(u.waits, version)
	return wait.answers, true
}
