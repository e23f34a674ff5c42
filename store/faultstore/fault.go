package faultstore

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/greenroom-run/greenroom/actor"
)

// Fault names something that goes wrong; the package comment has the table.
type Fault string

// The faults.
const (
	LoadFails         Fault = "load fails"
	VersionsFail      Fault = "versions fail"
	RecordLoadFails   Fault = "record load fails"
	CommitFails       Fault = "commit fails"
	CommitPartlyFails Fault = "commit partly fails"
	CommitLost        Fault = "commit lost"
	CommitReplyLost   Fault = "commit reply lost"
	TurnRetried       Fault = "turn retried"
	TurnFails         Fault = "turn fails"
	TurnLost          Fault = "turn lost"
	TurnReplyLost     Fault = "turn reply lost"
	SettleFails       Fault = "settle fails"
	SettleReplyLost   Fault = "settle reply lost"
	ModuleWriteFails  Fault = "module write fails"
	SettingFails      Fault = "setting fails"
	LeaseFails        Fault = "lease fails"
	LeaseReplyLost    Fault = "lease reply lost"
	ReminderReadFails Fault = "reminder read fails"
	BucketFails       Fault = "bucket fails"
	BucketReplyLost   Fault = "bucket reply lost"
)

// Faults returns every fault.
func Faults() []Fault {
	return []Fault{
		LoadFails, VersionsFail, RecordLoadFails, CommitFails, CommitPartlyFails, CommitLost, CommitReplyLost, TurnRetried,
		TurnFails, TurnLost, TurnReplyLost, SettleFails, SettleReplyLost, ModuleWriteFails,
		SettingFails, LeaseFails, LeaseReplyLost, ReminderReadFails, BucketFails, BucketReplyLost,
	}
}

func (f Fault) unavailable() error {
	return fmt.Errorf("planned fault: %s: %w", string(f), actor.ErrUnavailable)
}

func (f Fault) ambiguous() error {
	return fmt.Errorf("planned fault: %s: %w", string(f), actor.ErrAmbiguous)
}

// plan decides which faults happen.
type plan struct {
	mu    sync.Mutex
	rng   *rand.Rand
	rates map[Fault]float64
	armed map[Fault]int
	fired map[Fault]int
}

// Arm makes f happen to the next n operations that it fits, besides its rate.
func (p *plan) Arm(f Fault, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed[f] += n
}

// Calm ends all planned faults; counts stay.
func (p *plan) Calm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.armed)
	clear(p.rates)
}

// Fired returns how often f has happened.
func (p *plan) Fired(f Fault) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fired[f]
}

// Pending returns the armed faults that have not happened yet, and the faults
// at a rate that never have. A test that ends with any has not tested them.
func (p *plan) Pending() []Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pending []Fault
	for _, f := range Faults() {
		if p.armed[f] > 0 || p.rates[f] > 0 && p.fired[f] == 0 {
			pending = append(pending, f)
		}
	}
	return pending
}

// fires reports whether f happens now, and counts it.
func (p *plan) fires(f Fault) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.armed[f] > 0:
		p.armed[f]--
	case p.rates[f] > 0 && p.rng.Float64() < p.rates[f]:
	default:
		return false
	}
	p.fired[f]++
	return true
}

// first returns the first of faults that happens, "" if none does.
func (p *plan) first(faults ...Fault) Fault {
	for _, f := range faults {
		if p.fires(f) {
			return f
		}
	}
	return ""
}

// around runs an operation, which may fail before it is done, or lose its answer.
func (p *plan) around(fails, replyLost Fault, do func() error) error {
	switch f := p.first(fails, replyLost); f {
	case fails:
		return f.unavailable()
	case replyLost:
		if err := do(); err != nil {
			return err
		}
		return f.unavailable()
	}
	return do()
}

// pick returns a number below n.
func (p *plan) pick(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rng.IntN(n)
}
