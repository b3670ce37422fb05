package journal

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Formats lists the formats that Usage.Write supports.
var Formats = []string{"table", "csv", "json"}

// sumNames are the column names of Sums, in the order of the table.
var sumNames = []string{
	"requests", "errors", "incomplete", "estimated", "booked", "prompt_tokens", "cached_tokens", "cache_write_tokens",
	"cache_write_1h_tokens", "audio_input_tokens", "completion_tokens", "reasoning_tokens", "audio_output_tokens", "uncertain_usd", "cost_usd",
}

// values returns the sums in the order of sumNames, without the amounts of money.
func (s *Sums) values() [13]int64 {
	t := &s.Tokens
	return [...]int64{
		s.Requests, s.Errors, s.Incomplete, s.Estimated, s.Booked, t.Prompt, t.Cached, t.CacheWrite,
		t.CacheWrite1h, t.AudioIn, t.Completion, t.Reasoning, t.AudioOut,
	}
}

func (s *Sums) texts() []string {
	all := make([]string, 0, len(sumNames))
	for _, n := range s.values() {
		all = append(all, strconv.FormatInt(n, 10))
	}
	return append(all, s.Uncertain.String(), s.Cost.String())
}

func (u *Usage) columns() []string {
	var names []string
	for _, c := range u.By {
		names = append(names, c.String())
	}
	return append(names, sumNames...)
}

// Write writes the rows in one of Formats. The table ends with the total.
func (u *Usage) Write(w io.Writer, format string) error {
	out := bufio.NewWriter(w)
	var err error
	switch format {
	case "table":
		err = u.writeTable(out)
	case "csv":
		err = u.writeCSV(out)
	case "json":
		err = u.writeJSON(out)
	default:
		return queryError("invalid format %q: want %s", format, strings.Join(Formats, ", "))
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// writeTable writes a table without the columns that are 0 in all rows, except for the requests and the cost.
func (u *Usage) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	total := u.Total.texts()
	shown := func(values, texts []string) []string {
		line := slices.Clone(values)
		for i, text := range texts {
			if total[i] != "0" || i == 0 || i == len(total)-1 {
				line = append(line, text)
			}
		}
		return line
	}
	printable := func(values []string) []string {
		values = slices.Clone(values)
		for i, v := range values {
			values[i] = strings.Map(func(r rune) rune {
				if r < ' ' || r == 0x7f {
					return ' '
				}
				return r
			}, v)
			if v == "" {
				values[i] = "-"
			}
		}
		return values
	}
	line := func(cells []string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }
	columns := u.columns()
	line(shown(columns[:len(u.By)], columns[len(u.By):]))
	for i := range u.Rows {
		line(shown(printable(u.Rows[i].Values), u.Rows[i].texts()))
	}
	if len(u.By) > 0 {
		line(shown(append([]string{"total"}, make([]string, len(u.By)-1)...), total))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return u.writeRatios(w)
}

func (u *Usage) writeCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	if err := c.Write(u.columns()); err != nil {
		return err
	}
	for i := range u.Rows {
		if err := c.Write(append(slices.Clone(u.Rows[i].Values), u.Rows[i].texts()...)); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// writeJSON writes {"rows": [...], "total": {...}, "tokens_per_byte": {...}}, with members in the order of the columns.
func (u *Usage) writeJSON(w io.Writer) error {
	object := func(values []string, s *Sums) []byte {
		b := []byte{'{'}
		for i, v := range values {
			text, _ := json.Marshal(v) // cannot fail for a string
			b = fmt.Appendf(b, "%q:%s,", u.By[i].String(), text)
		}
		for i, n := range s.values() {
			b = fmt.Appendf(b, "%q:%d,", sumNames[i], n)
		}
		return fmt.Appendf(b, `"uncertain_usd":%s,"cost_usd":%s}`, s.Uncertain, s.Cost)
	}
	_, _ = io.WriteString(w, `{"rows":[`)
	for i := range u.Rows {
		if i > 0 {
			_, _ = io.WriteString(w, ",")
		}
		_, _ = fmt.Fprintf(w, "\n%s", object(u.Rows[i].Values, &u.Rows[i].Sums))
	}
	text, err := json.Marshal(u.TokensPerByte)
	if err == nil {
		_, err = fmt.Fprintf(w, "\n],\n\"total\":%s,\n\"tokens_per_byte\":%s}\n", object(nil, &u.Total), text)
	}
	return err
}
