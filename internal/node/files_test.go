package node

import "testing"

// Connections leave files to the store, whatever the limit of the process is.
func TestConnectionsLeaveFilesToTheStore(t *testing.T) {
	for files, want := range map[uint64]int{0: 65536, 700: 350, 1024: 512, 65536: 63488, 1 << 20: 65536, ^uint64(0): 65536} {
		if got := connectionsOf(files); got != want {
			t.Errorf("with %d files, clients may have %d connections, want %d", files, got, want)
		}
	}
	if got := (Config{}).WithDefaults().Server.MaxConnections; got == 0 {
		t.Error("connections are not bounded")
	}
}
