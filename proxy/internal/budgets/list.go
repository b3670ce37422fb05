package budgets

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// Formats are the formats of lists.
var Formats = []string{"table", "json", "csv"}

// Filter selects scopes. The zero value selects all.
type Filter struct {
	Kind string // key, team, model, provider or user; "": all
	Name string // "": all
}

// Check returns an error if the filter is invalid.
func (f Filter) Check() error {
	if f.Kind == "" || f.Kind == spend.User.String() {
		return nil
	}
	_, err := ParseKind(f.Kind)
	return err
}

// Selects reports whether the filter selects a scope.
func (f Filter) Selects(s spend.Scope) bool {
	return (f.Kind == "" || f.Kind == s.Kind.String()) && (f.Name == "" || f.Name == s.Name)
}

// List is a table that can be written in any of Formats.
type List struct {
	name    string
	columns []column
	rows    [][]string
}

// column is a column of a List. An empty cell is null in JSON.
type column struct {
	name   string
	number bool
}

// statusColumns are the columns of budgets: what identifies a budget and its window, amounts, and whether it is shared.
var statusColumns = []column{
	{"scope", false}, {"name", false}, {"per", false}, {"window_start", false}, {"window_end", false},
	{"limit_usd", true}, {"raised_usd", true}, {"spent_usd", true}, {"uncertain_usd", true}, {"held_usd", true}, {"left_usd", true},
	{"shared", true},
}

func sharedText(shared bool) string {
	if shared {
		return "true"
	}
	return ""
}

// Describe lists budgets in their current windows.
func Describe(all []spend.Status, f Filter) *List {
	l := &List{name: "budgets", columns: statusColumns}
	for i := range all {
		if s := &all[i]; f.Selects(s.Scope) {
			l.rows = append(l.rows, []string{
				s.Scope.Kind.String(), s.Scope.Name, s.Per.String(), timeText(s.Start), timeText(s.End),
				s.Limit.String(), s.Raised.String(), s.Spent.String(), s.Uncertain.String(), s.Held.String(), s.Left().String(), sharedText(s.Shared),
			})
		}
	}
	return l
}

// History lists changes: those that were made, oldest first, and then those that wait for the gateway.
func History(made []spend.Adjustment, pending []*Change, f Filter) *List {
	l := &List{name: "changes", columns: []column{
		{"time", false}, {"scope", false}, {"name", false}, {"per", false}, {"credit_usd", true}, {"reason", false}, {"id", false},
	}}
	made = slices.Clone(made)
	slices.SortStableFunc(made, func(a, b spend.Adjustment) int { return a.At.Compare(b.At) })
	for i := range made {
		if a := &made[i]; f.Selects(a.Scope) {
			l.rows = append(l.rows, []string{timeText(a.At), a.Scope.Kind.String(), a.Scope.Name, a.Per.String(), a.Credit.String(), a.Reason, a.ID})
		}
	}
	for _, c := range pending {
		if !f.Selects(c.Scope) || slices.ContainsFunc(made, func(a spend.Adjustment) bool { return a.ID == c.ID }) {
			continue
		}
		credit := ""
		if c.Raise != 0 {
			credit = c.Raise.String()
		}
		l.rows = append(l.rows, []string{"", c.Scope.Kind.String(), c.Scope.Name, c.Per.String(), credit, c.Reason, c.ID})
	}
	return l
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Truncate(time.Second).Format(time.RFC3339)
}

// Write writes the list in one of Formats. Any other format is an error.
func (l *List) Write(w io.Writer, format string) error {
	out := bufio.NewWriter(w)
	var err error
	switch format {
	case "table":
		err = l.writeTable(out)
	case "json":
		err = l.writeJSON(out)
	case "csv":
		err = l.writeCSV(out)
	default:
		return CheckFormat(format)
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// CheckFormat returns an error if format is not one of Formats.
func CheckFormat(format string) error {
	if slices.Contains(Formats, format) {
		return nil
	}
	return fmt.Errorf("invalid format %q: want %s", format, strings.Join(Formats, ", "))
}

func (l *List) header() []string {
	names := make([]string, len(l.columns))
	for i := range l.columns {
		names[i] = l.columns[i].name
	}
	return names
}

func (l *List) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(l.header(), "\t"))
	for _, row := range l.rows {
		row = slices.Clone(row)
		for i, cell := range row {
			row[i] = strings.Map(printable, cell)
			if cell == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// printable replaces control characters, which would break lines or columns.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

func (l *List) writeCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	_ = c.Write(l.header()) // Error returns its error
	for _, row := range l.rows {
		_ = c.Write(row)
	}
	c.Flush()
	return c.Error()
}

// writeJSON writes {"budgets": [...]}, members in the order of the columns.
func (l *List) writeJSON(w io.Writer) error {
	b := fmt.Appendf(nil, "{%q:[", l.name)
	for n, row := range l.rows {
		if n > 0 {
			b = append(b, ',')
		}
		b = append(b, "\n{"...)
		for i, cell := range row {
			if i > 0 {
				b = append(b, ',')
			}
			b = fmt.Appendf(b, "%q:", l.columns[i].name)
			switch {
			case cell == "":
				b = append(b, "null"...)
			case l.columns[i].number:
				b = append(b, cell...)
			default:
				text, _ := json.Marshal(cell) // does not fail for a string
				b = append(b, text...)
			}
		}
		b = append(b, '}')
	}
	_, err := w.Write(append(b, "\n]}\n"...))
	return err
}
