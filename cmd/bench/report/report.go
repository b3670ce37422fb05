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
	Sluice *float64 `json:"sluice,omitempty"`

	// Ratio of Sluice to the bare proxy per round: median, minimum, maximum.
	Ratio   *float64 `json:"ratio,omitempty"`
	Lowest  *float64 `json:"ratio_lowest,omitempty"`
	Highest *float64 `json:"ratio_highest,omitempty"`

	// Extra is the difference to the bare proxy, in cases that compare the difference instead of the ratio.
	Extra *float64 `json:"extra,omitempty"`

	// Goal is the upper bound for the first of Ratio, Extra and Sluice that is set. 0 means no goal.
	Goal float64 `json:"goal,omitempty"`
	Note string  `json:"note,omitempty"`
}

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
		v = r.Ratio
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

// Compare sets the medians and the ratio. Each slice has one value per round.
func (r *Row) Compare(direct, bare, nginx, sluice []float64) {
	set := func(to **float64, values []float64) {
		if len(values) > 0 {
			*to = new(Median(values))
		}
	}
	set(&r.Direct, direct)
	set(&r.Bare, bare)
	set(&r.Nginx, nginx)
	set(&r.Sluice, sluice)
	var ratios []float64
	for i := range min(len(bare), len(sluice)) {
		if bare[i] > 0 {
			ratios = append(ratios, sluice[i]/bare[i])
		}
	}
	if len(ratios) > 0 {
		set(&r.Ratio, ratios)
		r.Lowest, r.Highest = new(slices.Min(ratios)), new(slices.Max(ratios))
	}
}

// CompareDifference sets the medians and Extra.
func (r *Row) CompareDifference(bare, nginx, sluice []float64) {
	r.SetFigures(bare, nginx, sluice)
	differences := make([]float64, min(len(bare), len(sluice)))
	for i := range differences {
		differences[i] = sluice[i] - bare[i]
	}
	r.Extra = new(Median(differences))
}

// SetFigures sets only the medians.
func (r *Row) SetFigures(bare, nginx, sluice []float64) {
	r.Compare(nil, bare, nginx, sluice)
	r.Ratio, r.Lowest, r.Highest = nil, nil, nil
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

// cells returns the columns of a row.
func (r *Row) cells() []string {
	versusBare, goal, met := "–", "–", ""
	switch {
	case r.Ratio != nil:
		versusBare = fmt.Sprintf("%.2f × (%.2f–%.2f)", *r.Ratio, *r.Lowest, *r.Highest)
	case r.Extra != nil:
		versusBare = fmt.Sprintf("%+.0f", *r.Extra)
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
	return []string{r.Case, r.Plugin, r.Unit, number(r.Direct), number(r.Bare), number(r.Nginx), number(r.Sluice), versusBare, goal, met}
}

var columns = []string{"CASE", "PLUGIN", "UNIT", "DIRECT", "BARE", "NGINX", "SLUICE", "VS. BARE", "GOAL", "MET"}

// Table writes the rows as text.
func (r *Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(columns, "\t"))
	for i := range r.Rows {
		fmt.Fprintln(t, strings.Join(r.Rows[i].cells(), "\t"))
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
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = strings.ToLower(c)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat(" --- |", len(columns)))
	for i := range r.Rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r.Rows[i].cells(), " | "))
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
