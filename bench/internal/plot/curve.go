package plot

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"time"
)

// Curve is latency against load of one subject.
type Curve struct {
	// Panel is the title of the panel that it stands in: those of one scale of
	// loads stand together.
	Panel string
	// Name is its subject's. Curves of one name have one colour.
	Name   string
	Points []Point // by rising load
}

// Point is what was measured at one load.
type Point struct {
	Load     float64 // calls/s that were due
	Done     float64 // calls/s that were answered
	P50, P99 time.Duration
}

// keptUp reports whether what was due was answered. Where it was not, calls queue
// up, and their latency grows for as long as one measures.
func (p Point) keptUp() bool { return p.Done >= 0.95*p.Load }

// The measures of a picture of curves, in pixels.
const (
	panelWidth, panelHeight          = 380, 280
	panelLeft, panelTop, panelBottom = 64, 72, 52
)

var colours = []string{"#1565c0", "#ef6c00", "#2e7d32", "#6a1b9a"}

// DrawCurves writes a picture of two lines for each curve: the median, drawn
// through, and the 99th percentile, dashed. Latencies are on one logarithmic scale,
// loads on a linear one for each panel. Points at which the subject did not keep up
// are hollow.
func DrawCurves(w io.Writer, curves []Curve) error {
	panels, names, low, high, err := extent(curves)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	width, height := len(panels)*(panelLeft+panelWidth)+24, panelTop+panelHeight+panelBottom
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	legend(&b, names)
	for i, title := range panels {
		p := panel{left: float64(i*(panelLeft+panelWidth) + panelLeft), low: low, high: high}
		for _, c := range curves {
			if c.Panel == title {
				p.load = max(p.load, c.Points[len(c.Points)-1].Load)
			}
		}
		p.axes(&b, title)
		for _, c := range curves {
			if c.Panel == title {
				p.curve(&b, c, colours[slices.Index(names, c.Name)%len(colours)])
			}
		}
	}
	b.WriteString("</svg>\n")
	_, err = w.Write(b.Bytes())
	return err
}

// extent returns panels and names in the order of their first curve, and the powers
// of ten between which all latencies are.
func extent(curves []Curve) (panels, names []string, low, high float64, err error) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, c := range curves {
		if len(c.Points) == 0 {
			return nil, nil, 0, 0, fmt.Errorf("the curve %q has no points", c.Name)
		}
		if !slices.Contains(panels, c.Panel) {
			panels = append(panels, c.Panel)
		}
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
		for _, p := range c.Points {
			if p.P50 <= 0 || p.P99 < p.P50 || p.Load <= 0 {
				return nil, nil, 0, 0, fmt.Errorf("the curve %q has a point without load or latency: %+v", c.Name, p)
			}
			low, high = min(low, float64(p.P50)), max(high, float64(p.P99))
		}
	}
	if len(curves) == 0 {
		return nil, nil, 0, 0, errors.New("there is no curve to draw")
	}
	low = math.Floor(math.Log10(low))
	return panels, names, low, max(math.Ceil(math.Log10(high)), low+1), nil
}

func legend(b *bytes.Buffer, names []string) {
	// One text, so that the second part begins where the first ends in any font.
	fmt.Fprint(b, `<text x="12" y="22"><tspan font-size="14" font-weight="bold">Latency against load</tspan>`+
		`<tspan dx="12" fill="#555555">median drawn through, 99th percentile dashed; hollow: not all calls that were due were answered</tspan></text>`+"\n")
	x := panelLeft
	for i, name := range names {
		fmt.Fprintf(b, `<line x1="%d" y1="38" x2="%d" y2="38" stroke="%s" stroke-width="3"/>`+"\n", x, x+24, colours[i%len(colours)])
		fmt.Fprintf(b, `<text x="%d" y="42">%s</text>`+"\n", x+30, html.EscapeString(name))
		x += 60 + 8*len(name)
	}
}

// panel is one pair of axes.
type panel struct {
	left, load float64
	low, high  float64 // powers of ten of nanoseconds
}

func (p panel) x(load float64) float64 { return p.left + panelWidth*0.96*load/p.load }

func (p panel) y(latency float64) float64 {
	return panelTop + panelHeight*(1-(math.Log10(latency)-p.low)/(p.high-p.low))
}

func (p panel) axes(b *bytes.Buffer, title string) {
	right, floor := p.left+panelWidth, float64(panelTop+panelHeight)
	fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" font-weight="bold">%s</text>`+"\n", (p.left+right)/2, panelTop-10, html.EscapeString(title))
	for power := p.low; power <= p.high; power++ {
		for _, factor := range []float64{1, 2, 5} {
			value := factor * math.Pow(10, power)
			if math.Log10(value) > p.high+1e-9 {
				continue
			}
			y := p.y(value)
			fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", p.left, y, right, y, grid(factor))
			fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="end" fill="#555555">%s</text>`+"\n", p.left-6, y+4, unit(value))
		}
	}
	step := tick(p.load)
	for load := 0.0; p.x(load) <= right; load += step {
		x := p.x(load)
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%.1f" stroke="#eeeeee"/>`+"\n", x, panelTop, x, floor)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#555555">%s</text>`+"\n", x, floor+18, thousands(load))
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#555555">calls due in a second</text>`+"\n", (p.left+right)/2, floor+38)
}

func grid(factor float64) string {
	if factor == 1 {
		return "#bbbbbb"
	}
	return "#eeeeee"
}

func (p panel) curve(b *bytes.Buffer, c Curve, colour string) {
	for _, line := range []struct {
		dashes string
		of     func(Point) time.Duration
	}{
		{"", func(p Point) time.Duration { return p.P50 }},
		{` stroke-dasharray="5 4"`, func(p Point) time.Duration { return p.P99 }},
	} {
		var points, circles bytes.Buffer
		for _, at := range c.Points {
			x, y, fill := p.x(at.Load), p.y(float64(line.of(at))), colour
			if !at.keptUp() {
				fill = "white"
			}
			fmt.Fprintf(&points, "%.1f,%.1f ", x, y)
			fmt.Fprintf(&circles, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s" stroke="%s"/>`+"\n", x, y, fill, colour)
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`+"\n", bytes.TrimSpace(points.Bytes()), colour, line.dashes)
		b.Write(circles.Bytes()) // above the line
	}
}

// tick is a round distance that divides an axis into three to eight parts.
func tick(to float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(to)))
	for _, step := range []float64{0.2, 0.5, 1, 2} {
		if to/(step*power) <= 6 {
			return step * power
		}
	}
	return 5 * power
}

func thousands(rate float64) string {
	if rate >= 1000 {
		return fmt.Sprintf("%gk", math.Round(rate/100)/10)
	}
	return fmt.Sprintf("%g", rate)
}

// unit writes a round number of nanoseconds.
func unit(ns float64) string {
	switch {
	case ns >= 0.999e9:
		return fmt.Sprintf("%.3g s", ns/1e9)
	case ns >= 0.999e6:
		return fmt.Sprintf("%.3g ms", ns/1e6)
	case ns >= 0.999e3:
		return fmt.Sprintf("%.3g µs", ns/1e3)
	}
	return fmt.Sprintf("%.3g ns", ns)
}
