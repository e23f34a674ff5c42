package cluster

import (
	"testing"
	"time"
)

// TestLeader has a leader grant actors to a host that performs its orders in messages.
func TestLeader(t *testing.T) {
	res, err := runLeader(t.Context(), leaderSpec{Entries: 100, IDFormat: "customer-%08d"})
	if err != nil || res.CPU <= 0 {
		t.Errorf("got %+v, %v", res, err)
	}
}

// TestScale notices the leader's orders, and so when each change has settled.
func TestScale(t *testing.T) {
	res, err := runScale(t.Context(), scaleSpec{Hosts: 2, Types: 1, Steady: time.Millisecond})
	if err != nil || res.Join.Messages == 0 {
		t.Errorf("got %+v, %v", res, err)
	}
}
