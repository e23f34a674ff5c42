package wasm

import "github.com/greenroom-run/greenroom/abi"

func timerSet(i *instance, g guestBytes, s []uint64) {
	if r := reminderFrame(i, g, s); r != nil {
		s[0] = wasThere(i.calls.TimerSet(r))
	}
}

func timerCancel(i *instance, g guestBytes, s []uint64) {
	name := g.at(s[0], s[1])
	if i.calls == nil {
		s[0] = code32(abi.CodeNoTurn)
		return
	}
	i.malformed = ""
	s[0] = wasThere(i.calls.TimerCancel(name))
}

// wasThere is the result of a function that reports whether there was something.
func wasThere(there bool, code abi.Code) uint64 {
	switch {
	case code != 0:
		return code32(code)
	case there:
		return 1
	}
	return 0
}
