package scheduler

import "github.com/greenroom-run/greenroom/scheduler/protocol"

// ungrouped is between [Tables] and a host of a version that knows no groups of types
// (before protocol 4): each order about a group is one about each of its types, and is
// answered once the answers of all of them are there.
type ungrouped struct {
	waits map[uint64]*ungroupedOrder // by version
}

type ungroupedOrder struct {
	types   map[protocol.TypeName]struct{} // that have not answered
	answers [][]protocol.Range
}

func newUngrouped() *ungrouped { return &ungrouped{waits: map[uint64]*ungroupedOrder{}} }

// orders returns what the host gets in the place of an order.
func (u *ungrouped) orders(o protocol.Order) (orders []protocol.Order) {
	if o.Kind == protocol.Form {
		return nil
	}
	if o.Kind == protocol.Lock || o.Kind == protocol.Update {
		wait := &ungroupedOrder{types: make(map[protocol.TypeName]struct{}, len(o.Types))}
		for _, name := range o.Types {
			wait.types[name] = struct{}{}
		}
		u.waits[o.Version] = wait
	}
	for _, name := range o.Types {
		one := o
		one.Group, one.Types = 0, []protocol.TypeName{name}
		orders = append(orders, one)
	}
	return orders
}

// answered takes the answer of one type. Once it was the last it returns all of them.
func (u *ungrouped) answered(name protocol.TypeName, version uint64, ranges []protocol.Range) (answers [][]protocol.Range, all bool) {
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
