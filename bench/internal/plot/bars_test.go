package plot

import (
	"bytes"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
)

func TestDrawBars(t *testing.T) {
	b := bar.Bar{Name: "area.1", Title: "a <title>", Checks: []bar.Check{
		{Name: "<kept>", Unit: "x", Want: bar.AtLeast, Target: 2},
		{Name: "missed", Unit: "x", Want: bar.AtMost, Target: 2},
		{Name: "off the scale", Unit: "x", Want: bar.AtLeast, Target: 1},
	}}
	rec := new(bar.Record)
	rec.Compare("<kept>", 3, 1)
	rec.Compare("missed", 3, 1)
	rec.Compare("off the scale", 0, 1)
	res, err := b.Judge(rec)
	if err != nil {
		t.Fatal(err)
	}
	var picture bytes.Buffer
	if err := DrawBars(&picture, []bar.Result{res}); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, picture.String())
	const kept, missed = `fill="#2e7d32"`, `fill="#c62828"`
	if strings.Count(picture.String(), kept) != 1 || strings.Count(picture.String(), missed) != 2 {
		t.Errorf("one bar is kept and two are missed, and the picture shows\n%s", picture.String())
	}
}
