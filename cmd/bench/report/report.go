// Package report holds the results of the benchmark, and writes them as text, Markdown, JSON and SVG.
//
// Concurrency: a Report must be used from one goroutine.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Report has the results of a run.
type Report struct {
	System  string  `json:"system"`
	CPUs    int     `json:"cpus"`
	Go      string  `json:"go"`
	Version string  `json:"version"`
	Rounds  int     `json:"rounds"`
	Slice   string  `json:"slice"`
	Rows    []Row   `json:"rows"`
	Details []Usage `json:"details,omitempty"`
}

// Row is one measurement of a case.
type Row struct {
	Case   string `json:"case"`
	Plugin string `json:"plugin,omitempty"`
	Unit   string `json:"unit"` // unit of the figures, such as "µs CPU/request"

	// Medians; nil if not measured.
	Direct *float64 `json:"direct,omitempty"` // client and provider without a proxy
	Bare   *float64 `json:"bare,omitempty"`
	Nginx  *float64 `json:"nginx,omitempty"`
	Plain  *float64 `json:"plain,omitempty"` // the gateway without the capability that is measured
	Base   *float64 `json:"base,omitempty"`  // the gateway of another version
	Sluice *float64 `json:"sluice,omitempty"`

	// Ratio is that of Sluice to Plain, or to Bare if there is no Plain; VersusBase is that of Sluice to Base.
	Ratio      *Ratio `json:"ratio,omitempty"`
	VersusBase *Ratio `json:"versus_base,omitempty"`

	// Extra is the difference to the bare proxy, in cases that compare the difference instead of the ratio.
	Extra *float64 `json:"extra,omitempty"`

	// Goal is the upper bound for the first of Ratio, Extra and Sluice that is set. 0 means no goal.
	Goal float64 `json:"goal,omitempty"`
	Note string  `json:"note,omitempty"`
}

// Ratio has the ratios of all rounds.
type Ratio struct {
	Median  float64 `json:"median"`
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
}

// Figures are the measurements of each subject, one value per round.
type Figures struct{ Direct, Bare, Nginx, Plain, Base, Sluice []float64 }

// Usage is the usage of a subject per unit of a case.
type Usage struct {
	Case    string  `json:"case"`
	Subject string  `json:"subject"`
	Units   int64   `json:"units"`
	CPU     float64 `json:"cpu_us"`
	Reads   float64 `json:"reads"`
	Writes  float64 `json:"writes"`
}

// Met reports whether the goal is met; ok is false if there is no goal or no figure.
func (r *Row) Met() (met, ok bool) {
	v := r.Sluice
	switch {
	case r.Ratio != nil:
		v = &r.Ratio.Median
	case r.Extra != nil:
		v = r.Extra
	}
	if v == nil || r.Goal == 0 {
		return false, false
	}
	return *v <= r.Goal, true
}

// Median returns the median of values, NaN if there are none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// Quantile returns a quantile of sorted values, NaN if there are none.
func Quantile[T ~int64 | ~float64](sorted []T, part float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return float64(sorted[min(int(part*float64(len(sorted))), len(sorted)-1)])
}

// Compare sets the medians and the ratios.
func (r *Row) Compare(f Figures) {
	r.SetFigures(f)
	r.Ratio = ratio(f.Sluice, f.Bare)
	if f.Plain != nil {
		r.Ratio = ratio(f.Sluice, f.Plain)
	}
	r.VersusBase = ratio(f.Sluice, f.Base)
}

// ratio returns the ratios of two subjects per round, nil if one of them was not measured.
func ratio(values, reference []float64) *Ratio {
	var ratios []float64
	for i := range min(len(values), len(reference)) {
		if reference[i] > 0 {
			ratios = append(ratios, values[i]/reference[i])
		}
	}
	if len(ratios) == 0 {
		return nil
	}
	return &Ratio{Median(ratios), slices.Min(ratios), slices.Max(ratios)}
}

// CompareDifference sets the medians and Extra.
func (r *Row) CompareDifference(f Figures) {
	r.SetFigures(f)
	differences := make([]float64, min(len(f.Bare), len(f.Sluice)))
	for i := range differences {
		differences[i] = f.Sluice[i] - f.Bare[i]
	}
	r.Extra = new(Median(differences))
}

// SetFigures sets only the medians.
func (r *Row) SetFigures(f Figures) {
	for _, m := range []struct {
		to     **float64
		values []float64
	}{{&r.Direct, f.Direct}, {&r.Bare, f.Bare}, {&r.Nginx, f.Nginx}, {&r.Plain, f.Plain}, {&r.Base, f.Base}, {&r.Sluice, f.Sluice}} {
		if len(m.values) > 0 {
			*m.to = new(Median(m.values))
		}
	}
}

func number(v *float64) string {
	switch {
	case v == nil:
		return "–"
	case math.Abs(*v) >= 100:
		return fmt.Sprintf("%.0f", *v)
	case math.Abs(*v) >= 10:
		return fmt.Sprintf("%.1f", *v)
	}
	return fmt.Sprintf("%.2f", *v)
}

func (r *Ratio) String() string {
	if r == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f × (%.2f–%.2f)", r.Median, r.Lowest, r.Highest)
}

// cells returns the columns of a row.
func (r *Row) cells() []string {
	versusBare, versusPlain, goal, met := "–", "–", "–", ""
	switch {
	case r.Plain != nil:
		versusPlain = r.Ratio.String()
	case r.Extra != nil:
		versusBare = fmt.Sprintf("%+.0f", *r.Extra)
	default:
		versusBare = r.Ratio.String()
	}
	if r.Goal > 0 {
		goal = "≤ " + strconv.FormatFloat(r.Goal, 'f', -1, 64)
		switch {
		case r.Ratio != nil:
			goal += " ×"
		case r.Extra != nil:
			goal = strings.Replace(goal, " ", " +", 1)
		}
	}
	if ok, known := r.Met(); known {
		met = map[bool]string{true: "yes", false: "NO"}[ok]
	}
	return []string{r.Case, r.Plugin, r.Unit, number(r.Direct), number(r.Bare), number(r.Nginx), number(r.Plain), number(r.Base), number(r.Sluice),
		versusBare, versusPlain, r.VersusBase.String(), goal, met}
}

var columns = []string{"CASE", "PLUGIN", "UNIT", "DIRECT", "BARE", "NGINX", "PLAIN", "BASE", "SLUICE", "VS. BARE", "VS. PLAIN", "VS. BASE", "GOAL", "MET"}

// lines returns the heading and the rows, without the columns that are empty in all rows.
func (r *Report) lines() [][]string {
	lines := [][]string{slices.Clone(columns)}
	for i := range r.Rows {
		lines = append(lines, r.Rows[i].cells())
	}
	for c := len(columns) - 1; c >= 0; c-- {
		if slices.ContainsFunc(lines[1:], func(cells []string) bool { return cells[c] != "–" }) {
			continue
		}
		for i := range lines {
			lines[i] = slices.Delete(lines[i], c, c+1)
		}
	}
	return lines
}

// Table writes the rows as text.
func (r *Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range r.lines() {
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Note == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", row.Case, row.Note); err != nil {
			return err
		}
	}
	return nil
}

// Markdown writes the rows as a Markdown table.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	for i, cells := range r.lines() {
		line := strings.Join(cells, " | ")
		if i == 0 {
			line = strings.ToLower(line) + " |\n|" + strings.TrimSuffix(strings.Repeat(" --- |", len(cells)), " |")
		}
		fmt.Fprintf(&b, "| %s |\n", line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// JSON writes the whole report as JSON.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}
