package reminder

import "time"

// lastMinute is how a number that counts upwards grew within [recentFor], by the local clock. It
// is not empty.
type lastMinute []sample

// sample is a number at a time.
type sample struct {
	at    time.Time
	value int64
}

// newLastMinute begins with a value that is taken for as old as any.
func newLastMinute(value int64) lastMinute { return lastMinute{{time.Now(), value}} }

// note adds the present value, once within [pollEvery].
func (l *lastMinute) note(value int64) {
	if time.Since((*l)[len(*l)-1].at) >= pollEvery {
		*l = append(*l, sample{time.Now(), value})
	}
	for len(*l) > 1 && time.Since((*l)[1].at) >= recentFor {
		*l = (*l)[1:]
	}
}

// lower makes no value higher than this one: the number went back.
func (l lastMinute) lower(value int64) {
	for i := range l {
		l[i].value = min(l[i].value, value)
	}
}

// first returns the value of [recentFor] ago.
func (l lastMinute) first() int64 { return l[0].value }
