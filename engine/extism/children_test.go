package extism

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/enginetest"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// spawning is a plug-in that makes a child of the type that its input is, with a flag, and logs its ID.
func spawning(t *testing.T, flag uint64) []byte {
	t.Helper()
	b, one, two := &Builder{}, []byte{I64}, []byte{I64, I64}
	b.ImportFunc(envModule, "input_offset", nil, one)
	b.ImportFunc(envModule, "log_info", one, nil)
	b.ImportFunc(userModule, "greenroom_spawn_child", two, one)
	b.Memory(1, 0)
	b.Func("Do", nil, []byte{I32}, 0, Code(Call(0), i64Const(flag), Call(2), Call(1), I32Const(0))...)
	wasm, err := manifest.Embed(b.Bytes(), []byte(`{"abi":1,"types":[{"name":"T","methods":[{"name":"Do"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// TestSpawnChild: a plug-in makes children, and learns why it may not.
func TestSpawnChild(t *testing.T) {
	e := newEngine(t, Config{})
	for flag, want := range []string{"Helper with flags 0", "Helper with flags 1"} {
		i := instantiate(t, enginetest.Load(t, e, spawning(t, uint64(flag))))
		c := newCalls()
		if err := i.Run(context.Background(), frame("a", "Do", "Helper"), c); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(c.Spawned, []string{want}) || !slices.Contains(c.logs, "info: \x01child-1") {
			t.Errorf("spawned %q, logs %q", c.Spawned, c.logs)
		}
		for code, says := range map[abi.Code]string{
			abi.CodeNoState: "no_state: greenroom_spawn_child: why", abi.CodeInvalid: "invalid_type: greenroom_spawn_child: why",
			abi.CodeTooMany: "too_many: greenroom_spawn_child: the turn has done that as often as it may",
		} {
			c := newCalls()
			c.RefuseLife, c.Why = code, "why"
			var ge *actor.GuestError
			if err := i.Run(context.Background(), frame("a", "Do", "Helper"), c); !errors.As(err, &ge) || ge.Code+": "+ge.Message != says {
				t.Errorf("%d: %v, want %s", code, err, says)
			}
		}
	}
}
