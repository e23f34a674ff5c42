package manifest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
)

func TestParsePlacement(t *testing.T) {
	for text, want := range map[string]Placement{
		"any":            {Policy: abi.PlacementAny},
		"ring":           {Policy: abi.PlacementRing, RingHosts: 1},
		"ring:2":         {Policy: abi.PlacementRing, RingHosts: 2},
		"ring:16":        {Policy: abi.PlacementRing, RingHosts: 16},
		"sticky":         {Policy: abi.PlacementSticky},
		"stateless":      {Policy: abi.PlacementStateless},
		"static:a":       {Policy: abi.PlacementStatic, Hosts: []string{"a"}},
		"static:b,a.x-1": {Policy: abi.PlacementStatic, Hosts: []string{"b", "a.x-1"}},
		"checkout:1":     {Policy: abi.PlacementCheckout, Partitions: 1},
		"checkout:1024":  {Policy: abi.PlacementCheckout, Partitions: 1024},
	} {
		got, err := ParsePlacement(text)
		if err != nil || !reflect.DeepEqual(got, want) || got.String() != text {
			t.Errorf("%s: %+v (%s), %v", text, got, got, err)
		}
	}
	if got, err := ParsePlacement("checkout"); err != nil || got.String() != fmt.Sprintf("checkout:%d", DefaultPartitions) {
		t.Errorf("checkout: %s, %v", got, err)
	}
	if got, err := ParsePlacement("ring:1"); err != nil || got.String() != abi.PlacementRing {
		t.Errorf("ring:1: %s, %v", got, err)
	}
	for text, want := range map[string]string{
		"":                     "choose one of any, ring, ring:SERVERS, sticky, stateless, static:HOST,HOST,… or checkout:PARTITIONS",
		"everywhere":           "choose one of any",
		"Ring":                 "choose one of any",
		"sticky:2":             "write sticky alone",
		"ring:":                "from 1 to 16, ring:2, or ring alone",
		"ring:a":               "from 1 to 16",
		"ring:0":               "from 1 to 16",
		"ring:17":              "from 1 to 16",
		"ring:02":              "from 1 to 16",
		"static":               "static:a,b,c",
		"static:":              "static:a,b,c",
		"static:a,,b":          "static:a,b,c",
		"static:a,b,a":         `"a" twice`,
		"static:a b":           "A-Z a-z 0-9 . _ -",
		"static:" + long(254):  "at most 253",
		"static:" + names257(): "at most 256",
		"static:" + long(5000): "at most 4096",
		"checkout:":            "1 to 1024",
		"checkout:0":           "1 to 1024",
		"checkout:1025":        "1 to 1024",
		"checkout:+1":          "1 to 1024",
		"checkout:x":           "1 to 1024",
	} {
		if _, err := ParsePlacement(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want …%s…", text, err, want)
		}
	}
}

func long(n int) string { return strings.Repeat("n", n) }

func names257() string {
	var all []string
	for i := range 257 {
		all = append(all, fmt.Sprint("h", i))
	}
	return strings.Join(all, ",")
}

// TestPlacementOfManifest: a manifest's policy is read like one of a deployment.
func TestPlacementOfManifest(t *testing.T) {
	parse := func(placement string) (*abi.Manifest, []Fault) {
		return Parse([]byte(`{"abi":1,"types":[{"name":"T","placement":"` + placement + `","methods":[{"name":"M"}]}]}`))
	}
	m, faults := parse("checkout")
	if len(faults) > 0 || m.Types[0].Placement != "checkout:32" {
		t.Errorf("%+v %v", m, faults)
	}
	if m, faults = parse("static:a,b"); len(faults) > 0 || m.Types[0].Placement != "static:a,b" {
		t.Errorf("%+v %v", m, faults)
	}
	_, faults = parse("static:a,a")
	if len(faults) != 1 || faults[0].Code != CodeBadValue || !strings.Contains(faults[0].Message, `type T.placement: "static:a,a" names the host "a" twice`) {
		t.Errorf("%v", faults)
	}
}
