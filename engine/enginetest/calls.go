package enginetest

import "github.com/greenroom-run/greenroom/abi"

// Calls is the part of a turn that calls other actors, for a fake [engine.Calls]. The zero
// value replies with nothing.
type Calls struct {
	// Called are the messages, Result what all of them get.
	Called []abi.Message
	Result abi.Result
	// RefuseCalls is answered by all, if it is not 0; CallErr ends the guest.
	RefuseCalls abi.Code
	CallErr     error
	// During, if not nil, is called by all.
	During func()
}

// Call implements [engine.Calls].
func (f *Calls) Call(m *abi.Message) (*abi.Result, abi.Code, error) {
	f.Called = append(f.Called, *m)
	if f.During != nil {
		f.During()
	}
	return &f.Result, f.RefuseCalls, f.CallErr
}
