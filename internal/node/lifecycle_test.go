package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/store/embedded"
)

// TestStopUnderLoadLosesNothing stops a node while callers increment counters,
// and starts another one on the same folder.
func TestStopUnderLoadLosesNothing(t *testing.T) {
	dir := t.TempDir()
	first := start(t, node.Config{DataDir: dir})
	first.deploy(t, "default", example(t, "counter", guestbuild.Go))
	ledger := crash.NewLedger("stop", 4)
	stopped := make(chan struct{})
	ledger.Load(t.Context(), crash.CounterTarget(first.URL), 8, func(total int64) {
		if total == 200 {
			go func() {
				defer close(stopped)
				stop(t, first.Node)
			}()
		}
	})
	<-stopped
	second := start(t, node.Config{DataDir: dir})
	problems, err := ledger.Check(t.Context(), crash.CounterTarget(second.URL))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

func TestFolderInUse(t *testing.T) {
	dir := t.TempDir()
	start(t, node.Config{DataDir: dir})
	n, err := node.New(node.Config{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	err = n.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second node on one folder: %v", err)
	}
	if err := n.Stop(t.Context()); err != nil {
		t.Errorf("stop after a failed start: %v", err)
	}
}

// TestDeployUnderLoad switches an actor type to and fro while it is called: no
// call fails, and no increment is lost.
func TestDeployUnderLoad(t *testing.T) {
	r := start(t, node.Config{})
	wasm := example(t, "counter", guestbuild.Go)
	a := r.deploy(t, "default", wasm)
	// The same guest with a custom section is another module.
	b := r.deploy(t, "default", append(wasm[:len(wasm):len(wasm)], 0, 2, 1, 'x'))
	if a.Digest == b.Digest {
		t.Fatal("one digest for two modules")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const calls = 400
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range calls {
				if _, err := r.call(t.Context(), "default", "Counter", fmt.Sprint("c", w), "Add", `{"amount":1}`); err != nil {
					t.Errorf("call %d: %v", i, err)
					return
				}
			}
		})
	}
	switching := make(chan error, 1)
	go func() {
		var err error
		for i := 0; ctx.Err() == nil && err == nil; i++ {
			digest := []string{a.Digest, b.Digest}[i%2]
			_, err = r.modules.Deploy(t.Context(), connect.NewRequest(&greenroomv1.DeployRequest{App: "default", Digest: digest}))
		}
		switching <- err
	}()
	wg.Wait()
	cancel()
	if err := <-switching; err != nil {
		t.Errorf("deploy: %v", err)
	}
	for w := range 4 {
		r.mustCall(t, "default", "Counter", fmt.Sprint("c", w), "Get", "", fmt.Sprintf(`{"count":%d}`, calls))
	}
}

// manifestOf is a guest whose one method does nothing, under a state schema.
func manifestOf(schema int) wasmtest.Guest {
	return wasmtest.Guest{
		Manifest: fmt.Sprintf(`{"abi":1,"types":[{"name":"T","state_schema":%d,"methods":[{"name":"Do"}]}]}`, schema),
		// state_set("k", "1", JSON), with key and value inside the manifest's text.
		Imports: []wasmtest.Import{wasmtest.Host("state_set", "iiiii", "i")},
		Turn: wasmtest.Code(
			wasmtest.I32Const(wasmtest.ManifestAt+2), wasmtest.I32Const(3), // abi
			wasmtest.I32Const(wasmtest.ManifestAt+7), wasmtest.I32Const(1), // 1
			wasmtest.I32Const(1), wasmtest.Call(0),
		),
	}
}

func TestSchemasAndRollback(t *testing.T) {
	r := start(t, node.Config{})
	old := r.deploy(t, "", manifestOf(1).Bytes())
	r.deploy(t, "", manifestOf(2).Bytes())
	r.mustCall(t, "", "T", "x", "Do", "", "") // writes under schema 2

	_, err := r.modules.Deploy(t.Context(), connect.NewRequest(&greenroomv1.DeployRequest{Digest: old.Digest}))
	if detail(err).GetKind() != "schema_rollback" || connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("deploying an older schema: %v", err)
	}
	_, err = r.modules.Rollback(t.Context(), connect.NewRequest(&greenroomv1.RollbackRequest{Type: "T"}))
	if detail(err).GetKind() != "schema_rollback" {
		t.Errorf("rolling back over a schema: %v", err)
	}
	rolled, err := r.modules.Rollback(t.Context(), connect.NewRequest(&greenroomv1.RollbackRequest{Type: "T", Force: true}))
	if err != nil || rolled.Msg.Deployment.Generation != 3 || rolled.Msg.Deployment.Digest != old.Digest || rolled.Msg.Deployment.RolledBackFrom != 2 {
		t.Fatalf("forced rollback: %v %v", rolled, err)
	}
	if _, err := r.call(t.Context(), "", "T", "x", "Do", ""); detail(err).GetKind() != "schema_newer" {
		t.Errorf("an old module on newer state: %v", err)
	}
	r.mustCall(t, "", "T", "fresh", "Do", "", "")

	_, err = r.modules.DeleteModule(t.Context(), connect.NewRequest(&greenroomv1.DeleteModuleRequest{Digest: old.Digest}))
	if detail(err).GetKind() != "module_in_use" {
		t.Errorf("deleting a deployed module: %v", err)
	}
	history, err := r.modules.History(t.Context(), connect.NewRequest(&greenroomv1.HistoryRequest{Type: "T"}))
	if err != nil || len(history.Msg.Deployments) != 3 || history.Msg.Deployments[0].Generation != 3 {
		t.Errorf("history: %v %v", history, err)
	}
}

// TestDamagedRow writes a row whose state is not what it says, and looks at what
// its actor, its neighbours and its owner can do.
func TestDamagedRow(t *testing.T) {
	dir := t.TempDir()
	first := start(t, node.Config{DataDir: dir})
	first.deploy(t, "default", example(t, "counter", guestbuild.Go))
	for _, id := range []string{"good", "bad"} {
		first.mustCall(t, "", "Counter", id, "Add", `{"amount":5}`, `{"count":5}`)
	}
	stop(t, first.Node)

	st, err := embedded.Open(t.Context(), embedded.Config{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	key := actor.Key{App: "default", Type: "Counter", ID: "bad"}
	rows, err := st.LoadActors(t.Context(), []actor.Key{key}, actor.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	errs := st.Commit(t.Context(), []actor.Commit{actor.CommitOf(actor.RowWrite{
		Key: key, ReadVersion: rows[0].Version, NewVersion: rows[0].Version + 1, Generation: 1,
		State: &actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"count":5`)},
	})})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}

	second := start(t, node.Config{DataDir: dir})
	for range 2 {
		for _, method := range []string{"Add", "Get"} {
			_, err := second.call(t.Context(), "", "Counter", "bad", method, `{"amount":1}`)
			if connect.CodeOf(err) != connect.CodeDataLoss || detail(err).GetKind() != "state_damaged" {
				t.Errorf("%s on damaged state: %v", method, err)
			}
		}
	}
	second.mustCall(t, "", "Counter", "good", "Add", `{"amount":1}`, `{"count":6}`)
	if _, err := second.actors.DeleteActor(t.Context(), connect.NewRequest(&greenroomv1.DeleteActorRequest{
		Actor: &greenroomv1.ActorKey{Type: "Counter", Id: "bad"},
	})); err != nil {
		t.Errorf("delete the damaged actor: %v", err)
	}
	second.mustCall(t, "", "Counter", "bad", "Add", `{"amount":1}`, `{"count":1}`)
}

func TestMetrics(t *testing.T) {
	r := start(t, node.Config{})
	r.deploy(t, "", example(t, "counter", guestbuild.Go))
	r.mustCall(t, "", "Counter", "m", "Add", `{"amount":1}`, `{"count":1}`)
	status, text := r.http(t, http.MethodGet, "/metrics", "")
	for _, want := range []string{`type="Counter"`, `method="Add"`, "commit", "queue_depth", "turns_waiting_for_processor", "instances", "guest_memory", "activations"} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s (%d)", want, status)
		}
	}
}
