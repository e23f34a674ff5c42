package lint

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	metricRow    = regexp.MustCompile("(?m)^\\| `(greenroom_[a-z_]+)` \\| ([^|]*)\\|")
	metricInExpr = regexp.MustCompile(`(greenroom_[a-z_]+)(\{[^}]*\})?`)
	labelInExpr  = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"([^"]*)"`)
	groupInExpr  = regexp.MustCompile(`by \(([^)]*)\)`)
	alertField   = regexp.MustCompile(`(?m)^ +(?:- )?(alert|expr|for|severity|summary|description): (.*)$`)
)

// documentedMetrics returns the labels of each metric, by docs/metrics.md, with those that Prometheus gives to all.
func documentedMetrics(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string][]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(page), -1) {
		labels := []string{"job", "instance", "le"}
		for label := range strings.SplitSeq(row[2], ",") {
			labels = append(labels, strings.Trim(label, " `"))
		}
		metrics[row[1]] = labels
	}
	return metrics
}

// checkExpr checks that the metrics of an expression, and their labels, are those of docs/metrics.md.
func checkExpr(t *testing.T, where, expr string, metrics map[string][]string) {
	t.Helper()
	for _, pair := range []string{"()", "{}", "[]"} {
		if strings.Count(expr, pair[:1]) != strings.Count(expr, pair[1:]) {
			t.Errorf("%s: %s is not closed in %s", where, pair, expr)
		}
	}
	var known []string // the labels of all its metrics
	found := metricInExpr.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		t.Errorf("%s has no metric: %s", where, expr)
	}
	for _, m := range found {
		name := m[1]
		for _, part := range []string{"_bucket", "_sum", "_count"} { // of a histogram
			if base := strings.TrimSuffix(name, part); metrics[base] != nil {
				name = base
			}
		}
		labels := metrics[name]
		if labels == nil {
			t.Errorf("%s: docs/metrics.md has no %s", where, name)
		}
		known = append(known, labels...)
		for _, l := range labelInExpr.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labels, l[1]) {
				t.Errorf("%s: %s has no label %s", where, name, l[1])
			}
		}
	}
	for _, by := range groupInExpr.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(by[1], ",") {
			if label = strings.TrimSpace(label); !slices.Contains(known, label) {
				t.Errorf("%s: no metric of %s has the label %s", where, expr, label)
			}
		}
	}
}

// TestGrafanaDashboard checks that the dashboard shows metrics that servers have, and that its panels have titles and
// places of their own.
func TestGrafanaDashboard(t *testing.T) {
	data, err := os.ReadFile("../../deploy/grafana/greenroom.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			ID                       int
			Type, Title, Description string
			GridPos                  struct{ X, Y, W, H int }
			Targets                  []struct{ RefID, Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	metrics := documentedMetrics(t)
	variables := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if v.Definition != "" {
			checkExpr(t, v.Name, v.Definition, metrics)
		}
	}
	ids, taken, shown := map[int]bool{}, map[[2]int]string{}, 0
	for _, p := range d.Panels {
		if p.Title == "" || ids[p.ID] || p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("panel %d, %q, has no title, description or query, or the ID of another", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%q is in the place of %q, or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			checkExpr(t, p.Title, target.Expr, metrics)
			shown++
			for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !slices.Contains(variables, v[1]) {
					t.Errorf("%s: the dashboard has no variable %s", p.Title, v[1])
				}
			}
		}
	}
	if shown < 40 {
		t.Errorf("only %d queries were found", shown)
	}
}

// TestPrometheusAlerts checks that the alerts are about metrics, labels and outcomes that servers have.
func TestPrometheusAlerts(t *testing.T) {
	data, err := os.ReadFile("../../deploy/grafana/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	errorsPage, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics, fields := documentedMetrics(t), map[string]int{}
	var alert string
	seen := map[string]bool{}
	for _, f := range alertField.FindAllStringSubmatch(string(data), -1) {
		fields[f[1]]++
		switch f[1] {
		case "alert":
			if alert = f[2]; seen[alert] {
				t.Errorf("%s is there twice", alert)
			}
			seen[alert] = true
		case "expr":
			checkExpr(t, alert, f[2], metrics)
			for _, l := range labelInExpr.FindAllStringSubmatch(f[2], -1) {
				for value := range strings.SplitSeq(l[2], "|") {
					if l[1] == "outcome" && strings.Contains(f[2], "greenroom_turns_total") && !strings.Contains(string(errorsPage), "\n| `"+value+"` |") {
						t.Errorf("%s: docs/errors.md has no %s", alert, value)
					}
				}
			}
		case "severity":
			if f[2] != "warning" && f[2] != "critical" {
				t.Errorf("%s has the severity %s", alert, f[2])
			}
		case "summary", "description":
			if strings.Count(f[2], "'") != 2 || strings.Count(f[2], "{{") != strings.Count(f[2], "}}") {
				t.Errorf("%s: %s is no text in quotes", alert, f[2])
			}
		}
	}
	for field, n := range fields {
		if n != len(seen) || n < 10 {
			t.Errorf("%d alerts have %d times %s", len(seen), n, field)
		}
	}
}
