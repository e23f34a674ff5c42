package plot

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
)

// The measures of a picture of bars, in pixels.
const (
	rowHeight  = 22
	labelWidth = 430
	scaleWidth = 380
	textWidth  = 190
	top        = 52
	bottom     = 34
	// decades is how many powers of ten the scale shows below and above 1.
	decades = 1.5
)

// DrawBars writes a picture of bars: how far each check is above or below what was
// promised, on a logarithmic scale.
func DrawBars(w io.Writer, results []bar.Result) error {
	rows := 0
	for _, r := range results {
		rows += len(r.Checks)
	}
	width, height := labelWidth+scaleWidth+textWidth, top+rows*rowHeight+bottom
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="12" y="22" font-size="14" font-weight="bold">What was measured over what was promised (1 = just kept, more is better)</text>`+"\n")
	for _, tick := range []float64{0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20} {
		x, colour := at(tick), "#dddddd"
		if tick == 1 {
			colour = "#333333"
		}
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s"/>`+"\n", x, top-8, x, height-bottom+4, colour)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#555555">%g</text>`+"\n", x, height-bottom+20, tick)
	}
	y := top
	for _, r := range results {
		for _, c := range r.Checks {
			drawCheck(&b, y, r.Bar, c)
			y += rowHeight
		}
	}
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

// drawCheck draws one line: a block from 1 to the score, and a thin line over the
// spread of the runs.
func drawCheck(b *bytes.Buffer, y int, name string, c bar.NamedOutcome) {
	colour := "#2e7d32"
	if score(c.Outcome, c.Ratio) < 1 {
		colour = "#c62828"
	}
	one, x := at(1), at(score(c.Outcome, c.Ratio))
	low, high := x, x
	for _, p := range c.Runs {
		low, high = min(low, at(score(c.Outcome, p.Ratio))), max(high, at(score(c.Outcome, p.Ratio)))
	}
	middle := float64(y) + rowHeight/2
	fmt.Fprintf(b, `<text x="12" y="%.1f">%s  %s</text>`+"\n", middle+4, html.EscapeString(name), html.EscapeString(c.Name))
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="12" fill="%s"/>`+"\n", min(one, x), middle-6, math.Abs(x-one), colour)
	fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="black"/>`+"\n", low, middle, high, middle)
	fmt.Fprintf(b, `<text x="%d" y="%.1f">%.3g, promised %s %g</text>`+"\n",
		labelWidth+scaleWidth+8, middle+4, c.Ratio, c.Want.Sign(), c.Target)
}

// score is 1 where a ratio just keeps its promise, and more where it is better.
func score(o bar.Outcome, ratio float64) float64 {
	if ratio == o.Target { // 0 of both, too
		return 1
	}
	if o.Want == bar.AtMost {
		return o.Target / ratio
	}
	return ratio / o.Target
}

// at is where a score stands on the scale; what is off the scale stands at its
// end.
func at(score float64) float64 {
	share := (math.Log10(score) + decades) / (2 * decades)
	return labelWidth + scaleWidth*min(max(share, 0), 1)
}
