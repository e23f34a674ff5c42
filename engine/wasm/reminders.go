package wasm

import (
	"bytes"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/engine/confine"
)

func reminderSet(i *instance, g guestBytes, s []uint64) {
	if r := reminderFrame(i, g, s); r != nil {
		s[0] = code32(i.calls.ReminderSet(r))
	}
}

// reminderFrame reads what a guest wants to set. With nil the result is there.
func reminderFrame(i *instance, g guestBytes, s []uint64) *abi.Reminder {
	// A copy: what the host keeps of it must not alias the guest's memory.
	frame := bytes.Clone(g.at(s[0], s[1]))
	if i.calls == nil {
		s[0] = code32(abi.CodeNoTurn)
		return nil
	}
	r := &abi.Reminder{}
	i.malformed = ""
	if err := abi.DecodeReminder(frame, r); err != nil {
		i.malformed = err.Error()
		s[0] = code32(abi.CodeInvalid)
		return nil
	}
	return r
}

func reminderCancel(i *instance, g guestBytes, s []uint64) {
	name := g.at(s[0], s[1])
	if i.calls == nil {
		s[0] = code32(abi.CodeNoTurn)
		return
	}
	i.malformed = ""
	s[0] = code32(i.calls.ReminderCancel(name))
}

func reminderGet(i *instance, g guestBytes, s []uint64) {
	name, buf := g.at(s[0], s[1]), g.buffer(s[2], s[3])
	if i.calls == nil {
		s[0] = code64(abi.CodeNoTurn)
		return
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
		s[0] = code64(code)
	default:
		s[0] = g.fill(buf, abi.AppendReminder(nil, r))
	}
}

func reminderNames(i *instance, g guestBytes, s []uint64) {
	prefix, buf := g.at(s[0], s[1]), g.buffer(s[2], s[3])
	if i.calls == nil {
		s[0] = code64(abi.CodeNoTurn)
		return
	}
	i.malformed = ""
	var list []byte
	var code abi.Code
	var err error
	prefix = bytes.Clone(prefix) // as above
	i.wait(func() { list, code, err = i.calls.ReminderNames(prefix) })
	switch {
	case err != nil:
		panic(&confine.Stop{Err: err})
	case code != 0:
		s[0] = code64(code)
	default:
		s[0] = g.fill(buf, list)
	}
}

// problem says why the last of the functions above was refused, for people.
func problem(i *instance, g guestBytes, s []uint64) {
	buf := g.buffer(s[0], s[1])
	if i.calls == nil {
		s[0] = code64(abi.CodeNoTurn)
		return
	}
	text := i.malformed
	if text == "" {
		text = i.calls.Problem()
	}
	if text == "" {
		s[0] = code64(abi.CodeNotFound)
		return
	}
	s[0] = g.fill(buf, []byte(text))
}
