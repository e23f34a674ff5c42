package rpc

import "connectrpc.com/connect"

// done returns the response to a call that changed something.
func done[M any](msg *M, err error) (*connect.Response[M], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(msg), nil
}

// uncached returns a response that no cache keeps: it may come by GET, and state changes.
func uncached[M any](msg *M) *connect.Response[M] {
	res := connect.NewResponse(msg)
	res.Header().Set("Cache-Control", "no-store")
	return res
}
