package leader

import (
	"slices"
	"testing"

	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// TestDeployments: who knows an older deployment is told, and nobody else.
func TestDeployments(t *testing.T) {
	at := func(name string, generation uint64) protocol.Type {
		return protocol.Type{App: "app of " + name, Name: name, Generation: generation}
	}
	d, hosts := deployments{}, map[string]map[protocol.TypeName]protocol.Type{}
	for i, tt := range []struct {
		host         string
		types        []protocol.Type
		news, behind []string
	}{
		{"a", []protocol.Type{at("T", 1)}, []string{"app of T"}, nil},
		{"b", []protocol.Type{at("T", 1)}, nil, nil},
		{"b", []protocol.Type{at("T", 1), at("U", 1)}, []string{"app of U"}, nil},
		{"a", []protocol.Type{at("T", 3), at("U", 1)}, []string{"app of T"}, nil},
		{"c", []protocol.Type{at("T", 2), at("U", 1)}, nil, []string{"app of T"}},
		{"c", []protocol.Type{at("T", 3), at("U", 1)}, nil, nil},
		{"b", []protocol.Type{at("T", 3)}, []string{"app of U"}, nil}, // undeployed
		{"a", []protocol.Type{at("T", 3)}, nil, nil},
		{"c", []protocol.Type{at("U", 1)}, []string{"app of T"}, []string{"app of U"}},
		{"b", []protocol.Type{at("T", 4), at("U", 2)}, []string{"app of T", "app of U"}, nil},
		{"a", nil, nil, nil}, // it knew nothing newer
	} {
		news, behind := d.reported(hosts[tt.host], tt.types)
		if !slices.Equal(news, tt.news) || !slices.Equal(behind, tt.behind) {
			t.Errorf("report %d: news %q, behind %q; want %q, %q", i, news, behind, tt.news, tt.behind)
		}
		hosts[tt.host] = map[protocol.TypeName]protocol.Type{}
		for _, typ := range tt.types {
			hosts[tt.host][typ.TypeName()] = typ
		}
	}
}
