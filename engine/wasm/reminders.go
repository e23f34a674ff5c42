package wasm

import (
	"bytes"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/engine/confine"
)

func reminderSet(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	r, code := reminderFrame(i, g, s)
	if code == 0 {
		code = i.calls.ReminderSet(r)
	}
	return 0, code
}

// reminderFrame reads what a guest wants to set.
func reminderFrame(i *instance, g guestBytes, s []uint64) (*abi.Reminder, abi.Code) {
	// A copy: what the host keeps of it must not alias the guest's memory.
	frame := bytes.Clone(g.at(s[0], s[1]))
	if i.calls == nil {
		return nil, abi.CodeNoTurn
	}
	r := &abi.Reminder{}
	i.malformed = ""
	if err := abi.DecodeReminder(frame, r); err != nil {
		i.malformed = err.Error()
		return nil, abi.CodeInvalid
	}
	return r, 0
}

func reminderCancel(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	name := g.at(s[0], s[1])
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	i.malformed = ""
	return 0, i.calls.ReminderCancel(name)
}

func reminderGet(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	name, buf := g.at(s[0], s[1]), g.buffer(s[2], s[3])
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	i.malformed = ""
	var r *abi.Reminder
	var code abi.Code
	var err error
	name = bytes.Clone(name) // nothing reads the guest's memory meanwhile
	i.wait(func() { r, code, err = i.calls.ReminderGet(name) })
	switch {
	case err != nil:
		panic(&confine.Stop{Err: err})
	case code != 0:
		return 0, code
	}
	return g.fill(buf, abi.AppendReminder(nil, r)), 0
}

func reminderNames(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	prefix, buf := g.at(s[0], s[1]), g.buffer(s[2], s[3])
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	i.malformed = ""
	var list []byte
	var code abi.Code
	var err error
	prefix = bytes.Clone(prefix) // as above
	i.wait(func() { list, code, err = i.calls.ReminderNames(prefix) })
	if err != nil {
		panic(&confine.Stop{Err: err})
	}
	return g.value(buf, list, code)
}

// problem says why the last of the functions above was refused, for people.
func problem(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	buf := g.buffer(s[0], s[1])
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	text := i.malformed
	if text == "" {
		text = i.calls.Problem()
	}
	if text == "" {
		return 0, abi.CodeNotFound
	}
	return g.fill(buf, []byte(text)), 0
}
