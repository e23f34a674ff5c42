package serving

import (
	"github.com/greenroom-run/greenroom/abi"
)

// Life is what the manifest says of the lives of a type's actors.
type Life struct {
	Hooks     abi.Hooks
	sets      map[string]struct{} // that some method is in
	spawnOnly bool                // an actor exists only once another one has spawned it
	// WaitsOutsideSet means that calls of methods outside an actor's set wait.
	WaitsOutsideSet bool
}

func lifeOf(spec *abi.TypeSpec) Life {
	l := Life{Hooks: spec.Hooks, sets: make(map[string]struct{}), spawnOnly: spec.Spawn == abi.SpawnOnly, WaitsOutsideSet: spec.OutsideSet == abi.OutsideSetWait}
	for i := range spec.Methods {
		for _, set := range spec.Methods[i].Sets {
			l.sets[set] = struct{}{}
		}
	}
	return l
}
