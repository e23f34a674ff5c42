package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func wellFormed(t *testing.T, picture string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestDrawCurves(t *testing.T) {
	points := []Point{{100, 100, time.Millisecond, 2 * time.Millisecond}, {900, 700, 3 * time.Millisecond, 90 * time.Millisecond}}
	var b bytes.Buffer
	err := DrawCurves(&b, []Curve{{"one <panel>", "a&b", points}, {"one <panel>", "c", points[:1]}, {"other", "c", points}})
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.String())
	if n := strings.Count(b.String(), "<polyline"); n != 6 {
		t.Errorf("%d lines, want a median and a 99th percentile for each of 3 curves", n)
	}
	if n := strings.Count(b.String(), `r="3" fill="white"`); n != 4 {
		t.Errorf("%d hollow circles, want one on each of the 4 lines with a load that was not kept up with", n)
	}
	for _, want := range []string{"one &lt;panel&gt;", ">other<", "a&amp;b", ">1 ms<", ">100 ms<"} {
		if strings.Count(b.String(), want) == 0 {
			t.Errorf("no %q", want)
		}
	}
	for name, bad := range map[string][]Curve{
		"no curve": nil, "no points": {{Name: "x"}}, "no latency": {{Name: "x", Points: []Point{{Load: 1}}}},
		"no load": {{Name: "x", Points: []Point{{P50: 1, P99: 2}}}}, "percentiles exchanged": {{Name: "x", Points: []Point{{1, 1, 2, 1}}}},
	} {
		if err := DrawCurves(io.Discard, bad); err == nil {
			t.Errorf("%s was drawn", name)
		}
	}
}

func TestTicks(t *testing.T) {
	for to, want := range map[float64]float64{100: 20, 900: 200, 12_000: 2_000, 35_000: 10_000, 62_000: 20_000} {
		if got := tick(to); got != want {
			t.Errorf("tick(%g) = %g, want %g", to, got, want)
		}
	}
}
