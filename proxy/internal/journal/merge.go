package journal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Part is the usage of one of several gateways.
type Part struct {
	Gateway string
	Usage   *Usage
}

// WithoutGateway returns the columns for a query of one gateway.
func WithoutGateway(by []Column) []Column {
	return slices.DeleteFunc(slices.Clone(by), func(c Column) bool { return c == ByGateway })
}

// Merge adds up the usage of several gateways, whose columns are those of WithoutGateway.
func Merge(by []Column, parts []Part) *Usage {
	all, rows := &Usage{By: by}, make(map[string]*Row)
	for _, p := range parts {
		for i := range p.Usage.Rows {
			r, values, next := &p.Usage.Rows[i], make([]string, len(by)), 0
			for k, c := range by {
				if c == ByGateway {
					values[k] = p.Gateway
				} else {
					values[k] = r.Values[next]
					next++
				}
			}
			key := strings.Join(values, "\x00")
			if rows[key] == nil {
				rows[key] = &Row{Values: values}
			}
			rows[key].Add(&r.Sums)
		}
		all.Total.Add(&p.Usage.Total)
		for model, ratio := range p.Usage.TokensPerByte {
			if all.TokensPerByte == nil {
				all.TokensPerByte = make(map[string]float64)
			}
			all.TokensPerByte[model] = max(all.TokensPerByte[model], ratio)
		}
	}
	for _, r := range rows {
		all.Rows = append(all.Rows, *r)
	}
	slices.SortFunc(all.Rows, func(a, b Row) int { return slices.Compare(a.Values, b.Values) })
	return all
}

// ParseUsage reads the JSON format of Usage.Write, with these columns.
func ParseUsage(text []byte, by []Column) (*Usage, error) {
	var document struct {
		Rows          []map[string]json.RawMessage
		Total         map[string]json.RawMessage
		TokensPerByte map[string]float64 `json:"tokens_per_byte"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	u := &Usage{By: by, TokensPerByte: document.TokensPerByte}
	for _, members := range document.Rows {
		var r Row
		for _, c := range by {
			var value string
			if err := json.Unmarshal(members[c.String()], &value); err != nil {
				return nil, fmt.Errorf("usage: column %s: %w", c, err)
			}
			r.Values = append(r.Values, value)
		}
		if err := r.Sums.parse(members); err != nil {
			return nil, err
		}
		u.Rows = append(u.Rows, r)
	}
	return u, u.Total.parse(document.Total)
}

// parse reads the members that have the names in sumNames.
func (s *Sums) parse(members map[string]json.RawMessage) error {
	t := &s.Tokens
	fields := []any{
		&s.Requests, &s.Errors, &s.Incomplete, &s.Estimated, &s.Booked, &t.Prompt, &t.Cached, &t.CacheWrite,
		&t.CacheWrite1h, &t.AudioIn, &t.Completion, &t.Reasoning, &t.AudioOut, &s.Uncertain, &s.Cost,
	}
	for i, name := range sumNames {
		if err := json.Unmarshal(members[name], fields[i]); err != nil {
			return fmt.Errorf("usage: %s: %w", name, err)
		}
	}
	return nil
}
