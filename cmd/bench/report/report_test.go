package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/cmd/bench/report"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		before := append([]float64(nil), c.values...)
		if got := report.Median(c.values); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.values, got, c.want)
		}
		if diff := cmp.Diff(before, c.values); diff != "" {
			t.Errorf("Median modified its argument:\n%s", diff)
		}
	}
	if !math.IsNaN(report.Median(nil)) || !math.IsNaN(report.Quantile([]float64{}, 0.5)) {
		t.Error("the median or quantile of no values is not NaN")
	}
}

func TestQuantile(t *testing.T) {
	var times []time.Duration
	for i := range 1000 {
		times = append(times, time.Duration(i))
	}
	for part, want := range map[float64]float64{0: 0, 0.5: 500, 0.99: 990, 1: 999} {
		if got := report.Quantile(times, part); got != want {
			t.Errorf("quantile %v: got %v, want %v", part, got, want)
		}
	}
}

// TestCompare compares the figures of three rounds. In the second, everything is twice as slow, with the same ratio.
func TestCompare(t *testing.T) {
	row := report.Row{Goal: 1.5}
	row.Compare(report.Figures{Bare: []float64{10, 20, 10}, Base: []float64{30, 30, 20}, Sluice: []float64{15, 30, 20}})
	if *row.Bare != 10 || *row.Sluice != 20 || *row.Ratio != (report.Ratio{Median: 1.5, Lowest: 1.5, Highest: 2}) || row.Nginx != nil {
		t.Errorf("%+v", row)
	}
	if *row.VersusBase != (report.Ratio{Median: 1, Lowest: 0.5, Highest: 1}) {
		t.Errorf("versus base: %+v", row.VersusBase)
	}
	if met, ok := row.Met(); !met || !ok {
		t.Error("ratio 1.5 does not meet the goal 1.5")
	}
	row.Goal = 1.4
	if met, ok := row.Met(); met || !ok {
		t.Error("ratio 1.5 meets the goal 1.4")
	}
	row.Goal = 0
	if _, ok := row.Met(); ok {
		t.Error("Met returned ok without a goal")
	}
}

// TestComparePlain checks that the ratio is to the gateway without the capability, where there is one.
func TestComparePlain(t *testing.T) {
	var row report.Row
	row.Compare(report.Figures{Bare: []float64{10}, Plain: []float64{20}, Sluice: []float64{30}})
	if row.Ratio.Median != 1.5 || row.VersusBase != nil {
		t.Errorf("%+v", row)
	}
}

func TestCompareDifference(t *testing.T) {
	row := report.Row{Goal: 20}
	row.CompareDifference(report.Figures{Bare: []float64{100, 120, 90}, Sluice: []float64{110, 145, 105}})
	if *row.Extra != 15 || row.Ratio != nil {
		t.Errorf("%+v", row)
	}
	if met, ok := row.Met(); !met || !ok {
		t.Error("difference 15 does not meet the goal 20")
	}
}

// sample returns a report with a ratio and a plain figure.
func sample() *report.Report {
	r := &report.Report{Go: "go1.26"}
	ratio := report.Row{Case: "a <case>", Plugin: "openai", Unit: "µs CPU/request", Goal: 1.4}
	ratio.Compare(report.Figures{Bare: []float64{20}, Nginx: []float64{17}, Sluice: []float64{30}})
	figure := report.Row{Case: "binary", Unit: "MB", Goal: 30, Note: "stripped"}
	figure.SetFigures(report.Figures{Sluice: []float64{29}})
	r.Rows = []report.Row{ratio, figure}
	return r
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	if err := sample().Table(&b); err != nil {
		t.Fatal(err)
	}
	const want = `
CASE      PLUGIN  UNIT            BARE  NGINX  SLUICE  VS. BARE            GOAL     MET
a <case>  openai  µs CPU/request  20.0  17.0   30.0    1.50 × (1.50–1.50)  ≤ 1.4 ×  NO
binary            MB              –     –      29.0    –                   ≤ 30     yes
binary: stripped
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestMarkdown(t *testing.T) {
	var b bytes.Buffer
	if err := sample().Markdown(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for _, line := range lines {
		if strings.Count(line, "|") != strings.Count(lines[0], "|") {
			t.Errorf("%q and %q have different numbers of columns", line, lines[0])
		}
	}
	if len(lines) != 4 {
		t.Errorf("got %d lines, want 4", len(lines))
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := sample().JSON(&b); err != nil {
		t.Fatal(err)
	}
	var back report.Report
	if err := json.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), &back); diff != "" {
		t.Error(diff)
	}
}

func TestChartIsValidXML(t *testing.T) {
	var b bytes.Buffer
	if err := sample().Picture(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	d := xml.NewDecoder(&b)
	bars := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "title" {
			bars++
		}
	}
	if bars != 3 || !strings.Contains(text, "a &lt;case&gt;") {
		t.Errorf("got %d bars, want 3 and the escaped name of the case:\n%s", bars, text)
	}
}
