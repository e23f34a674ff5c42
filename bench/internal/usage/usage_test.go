package usage

import (
	"os"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	p, ok := parse([]byte("42 (a) b (c) S 7 1 1 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 99"))
	if want := (process{pid: 42, parent: 7, own: 30, waited: 70}); !ok || p != want {
		t.Fatalf("parse = %+v, %v; want %+v", p, ok, want)
	}
	for _, bad := range []string{"", "42 (a", "42 (a) S 7", ") 1 ("} {
		if p, ok := parse([]byte(bad)); ok {
			t.Errorf("parse(%q) = %+v", bad, p)
		}
	}
}

func TestTreeCountsThisProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc on this system")
	}
	for Self() < 3*tick {
		_ = make([]byte, 1<<16)
	}
	if tree, self := Tree(os.Getpid()), Self(); tree < tick || tree > self+10*time.Second {
		t.Fatalf("Tree = %v, Self = %v", tree, self)
	}
	if Resident(os.Getpid()) < 1<<20 {
		t.Fatalf("Resident = %d", Resident(os.Getpid()))
	}
}
