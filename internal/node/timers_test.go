package node_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
)

// TestTimersFire sets timers in turns of a Wasm guest, and over plain HTTP, of types that
// are kept warm, that are locked, and that have no state: they fire while the node lives,
// and are cancelled as they were set.
func TestTimersFire(t *testing.T) {
	turns := watchTurns()
	r := start(t, node.Config{TurnEnd: turns.add})
	r.deploy(t, "", build(t, filepath.Join("testdata", "alarm"), guestbuild.Go))
	for _, typ := range []string{"Alarm", "Locked"} {
		id := strings.ToLower(typ)
		if _, err := r.call(t.Context(), "", typ, id, "Do", `{"timers":[{"name":"no","method":"Ring"}],"fail":true}`); detail(err).GetGuest().GetCode() != "told_to" {
			t.Errorf("it did not fail: %v", err)
		}
		if _, err := r.call(t.Context(), "", typ, id, "Do", `{"timers":[{"name":"no","method":"Nope"}]}`); detail(err).GetGuest().GetCode() != "invalid_timer" {
			t.Errorf("a timer of no method: %v", err)
		}
		r.mustCall(t, "", typ, id, "Do", `{"timers":[{"name":"t","method":"Ring","in":"tick","every_ms":1},{"name":"later","method":"Ring","after_ms":3600000}]}`, `""`)
		turns.await(t, id, "Ring", 3)
		r.mustCall(t, "", typ, id, "Do", `{"stop":"t"}`, `"true"`)
		r.mustCall(t, "", typ, id, "Do", `{"stop":"t"}`, `"false"`)
		r.mustCall(t, "", typ, id, "Do", `{"stop":"later"}`, `"true"`)
		r.mustCall(t, "", typ, id, "Do", `{"stop":"no"}`, `"false"`)
		a := r.alarm(t, typ, id)
		if want := `timer t "tick" attempt 1 missed 0 map[] early false`; a.Last != want || a.Rung < 3 {
			t.Errorf("%s: %+v, want %s", typ, a, want)
		}
		url := "http://" + r.Addr().String() + "/v2.0/actors/default/" + typ + "/" + id + "/timers/far"
		if a := put(t, url, `{"dueTime": "1h", "callback": "Ring", "data": "x"}`); a.StatusCode != http.StatusNoContent {
			t.Errorf("%s: %s", a.Status, a.body)
		}
		r.mustCall(t, "", typ, id, "Do", `{"stop":"far"}`, `"true"`)
	}
	url := "http://" + r.Addr().String() + "/v2.0/actors/default/Bell/b/timers/Wake"
	if a := put(t, url, `{"data": "x"}`); a.StatusCode != http.StatusNoContent {
		t.Errorf("%s: %s", a.Status, a.body)
	}
	turns.await(t, "b", "Wake", 1)
	if a := put(t, url, `{"callback": "Nope"}`); a.StatusCode != http.StatusNotFound {
		t.Errorf("%s: %s", a.Status, a.body)
	}
}
