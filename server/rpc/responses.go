package rpc

import (
	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
)

// done returns the response to a call that changed something.
func done[M any](msg *M, err error) (*connect.Response[M], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(msg), nil
}

// mapped returns the result of a function for each item.
func mapped[T, M any](items []T, of func(item T) M) []M {
	all := make([]M, len(items))
	for i, item := range items {
		all[i] = of(item)
	}
	return all
}

// hostNames returns the IDs of hosts as strings.
func hostNames(ids []actor.HostID) []string {
	return mapped(ids, func(id actor.HostID) string { return string(id) })
}

// uncached returns a response that no cache keeps: it may come by GET, and state changes.
func uncached[M any](msg *M) *connect.Response[M] {
	res := connect.NewResponse(msg)
	res.Header().Set("Cache-Control", "no-store")
	return res
}
