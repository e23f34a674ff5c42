package modules

import (
	"fmt"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// TestServiceOfTwoTypes: of two types of an app that came to have one service at once, the first by name serves it, at every
// server.
func TestServiceOfTwoTypes(t *testing.T) {
	for range 20 { // maps have no order
		table := &table{types: make(map[typeName]served)}
		for i := range 10 {
			name := fmt.Sprint("T", i)
			spec := &abi.TypeSpec{Name: name, Protobuf: abi.Protobuf{Service: "a.S"}}
			table.types[typeName{"app", name}] = served{ServedType: ServedType{Spec: spec, Deployment: actor.Deployment{App: "app", Type: name}}}
		}
		table.indexServices()
		if got, ok := table.serviceType("app", "a.S"); !ok || got.Spec.Name != "T0" {
			t.Fatalf("%+v serves it", got.Spec)
		}
	}
}
