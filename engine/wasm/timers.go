package wasm

import "github.com/greenroom-run/greenroom/abi"

func timerSet(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	r, code := reminderFrame(i, g, s)
	if code != 0 {
		return 0, code
	}
	return wasThere(i.calls.TimerSet(r))
}

func timerCancel(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	name := g.at(s[0], s[1])
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	i.malformed = ""
	return wasThere(i.calls.TimerCancel(name))
}
