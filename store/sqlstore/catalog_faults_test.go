package sqlstore_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/sqlstore"
	"github.com/greenroom-run/greenroom/store/sqlstore/internal/pgproxy"
)

// catalogFaults are what can happen to a statement that may be done twice: the
// caller is to notice none of them.
var catalogFaults = []struct {
	name string
	pgproxy.Fault
}{
	{"never arrives", pgproxy.Fault{Do: pgproxy.Lose}},
	{"done, and the answer lost", pgproxy.Fault{Do: pgproxy.LoseAnswer}},
	{"40001", pgproxy.Fault{Do: pgproxy.Refuse, Code: "40001"}},
	{"40003, not done", pgproxy.Fault{Do: pgproxy.Refuse, Code: "40003"}},
	{"40003, done", pgproxy.Fault{Do: pgproxy.Deny, Code: "40003"}},
	{"57P01, not done", pgproxy.Fault{Do: pgproxy.Terminate, Code: "57P01"}},
	{"57P01, done", pgproxy.Fault{Do: pgproxy.TerminateDone, Code: "57P01"}},
}

func moduleOf(wasm []byte) actor.Module {
	return actor.Module{App: "shop", Digest: actor.DigestOf(wasm), Size: int64(len(wasm)), Manifest: []byte(`{}`)}
}

// only returns the single number that a query gives, around the proxy.
func (b *broken) only(sql string) (n int) {
	b.Helper()
	if err := b.connect().QueryRow(b.Context(), sql).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

func TestModuleFaults(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	for n, c := range catalogFaults {
		for _, on := range []string{"INSERT INTO greenroom_module_upload", "INSERT INTO greenroom_module_chunk", pgproxy.Commit} {
			t.Run(c.name+"/"+on, func(t *testing.T) {
				b := b.of(t)
				wasm := bytes.Repeat([]byte(fmt.Sprint(n, on)), 40_000)
				m := moduleOf(wasm)
				c.On = on
				b.proxy.Plan(t, c.Fault)
				b.is("put", b.s.PutModule(t.Context(), m, bytes.NewReader(wasm), 0), nil)
				got, err := b.around.ModuleBytes(t.Context(), m.App, m.Digest)
				b.is("read", err, nil)
				if !bytes.Equal(got, wasm) {
					t.Errorf("%d bytes are stored, want %d", len(got), len(wasm))
				}
				b.proxy.Plan(t, pgproxy.Fault{On: pgproxy.Commit, Do: c.Do, Code: c.Code})
				b.is("delete", b.s.DeleteModule(t.Context(), m.App, m.Digest), nil)
				_, err = b.around.Module(t.Context(), m.App, m.Digest)
				b.is("read after the delete", err, actor.ErrModuleNotFound)
				b.is("delete again", b.s.DeleteModule(t.Context(), m.App, m.Digest), actor.ErrModuleNotFound)
			})
		}
	}
	if left := b.only(`SELECT count(*) FROM greenroom_module_chunk`); left != 0 {
		t.Errorf("%d chunks are left of no module", left)
	}
}

func TestDeployFaults(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	wasm := []byte("module")
	if err := b.around.PutModule(t.Context(), moduleOf(wasm), bytes.NewReader(wasm), 0); err != nil {
		t.Fatal(err)
	}
	generation := uint64(0)
	for _, c := range catalogFaults {
		for _, on := range []string{pgproxy.Commit, "INSERT INTO greenroom_deployment"} {
			t.Run(c.name+"/"+on, func(t *testing.T) {
				b := b.of(t)
				generation++
				c.On = on
				b.proxy.Plan(t, c.Fault)
				var ds []actor.Deployment
				for _, typ := range []string{"Cart", "Order"} {
					ds = append(ds, actor.Deployment{App: "shop", Type: typ, Generation: generation, Digest: actor.DigestOf(wasm)})
				}
				b.is("deploy", b.s.Deploy(t.Context(), ds, store.AnyRevision), nil)
				for _, typ := range []string{"Cart", "Order"} {
					history, err := b.around.DeploymentHistory(t.Context(), "shop", typ, 0, 100)
					b.is("history", err, nil)
					if len(history) != int(generation) || history[0].Generation != generation {
						t.Errorf("%s has %d deployments, want %d", typ, len(history), generation)
					}
				}
				b.is("deploy again", b.s.Deploy(t.Context(), ds, store.AnyRevision), actor.ErrDeployConflict)
			})
		}
	}
}

// TestModuleThatIsDeployedMeanwhileMakesNoRoom has an upload about to remove the module that was unused
// for longest, when that module is deployed: another one makes room.
func TestModuleThatIsDeployedMeanwhileMakesNoRoom(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	var stored []actor.Module
	for n := range 3 {
		wasm := bytes.Repeat([]byte{byte(n)}, 40<<10)
		stored = append(stored, moduleOf(wasm))
		if n < 2 {
			b.is("put", b.s.PutModule(t.Context(), stored[n], bytes.NewReader(wasm), 0), nil)
		}
	}
	removing := b.proxy.Plan(t, pgproxy.Fault{On: "FOR UPDATE OF m", Do: pgproxy.Hold})
	put := make(chan error, 1)
	go func() {
		put <- b.s.PutModule(t.Context(), stored[2], bytes.NewReader(bytes.Repeat([]byte{2}, 40<<10)), 100<<10)
	}()
	<-removing.Struck()
	b.is("deploy", b.around.Deploy(t.Context(), []actor.Deployment{{App: "shop", Type: "Cart", Generation: 1, Digest: stored[0].Digest}}, store.AnyRevision), nil)
	removing.Release()
	b.is("put that makes room", <-put, nil)
	for n, want := range []error{nil, actor.ErrModuleNotFound, nil} {
		_, err := b.around.ModuleBytes(t.Context(), "shop", stored[n].Digest)
		b.is(fmt.Sprint("module ", n), err, want)
	}
}
