package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Column is a column by which the ledger can be grouped.
type Column uint8

// The columns.
const (
	ByDay Column = iota
	ByKey
	ByTeam
	ByModel
	ByProvider
	ByTags
	ByUser
	ByGateway // only of several gateways, see Merge
	columns   = iota
)

var columnNames = [columns]string{ByDay: "day", ByKey: "key", ByTeam: "team", ByModel: "model", ByProvider: "provider", ByTags: "tags", ByUser: "user", ByGateway: "gateway"}

// String returns the column's name.
func (c Column) String() string { return columnNames[c] }

// ParseColumns parses a comma-separated list of column names.
func ParseColumns(names string) ([]Column, error) {
	var by []Column
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		c := Column(slices.Index(columnNames[:], name))
		switch {
		case name == "":
			continue
		case c >= columns:
			return nil, queryError("invalid column %q: want %s", name, strings.Join(columnNames[:], ", "))
		case slices.Contains(by, c):
			return nil, queryError("column %q is given twice", name)
		}
		by = append(by, c)
	}
	return by, nil
}

// QueryError reports an invalid query.
type QueryError struct{ text string }

func (e *QueryError) Error() string { return e.text }

func queryError(format string, args ...any) error { return &QueryError{fmt.Sprintf(format, args...)} }

// Query is a query of the ledger.
type Query struct {
	Since, Until string    // first and last day, as 2006-01-02 or relative to Now: see relativeDay; "" means unbounded
	Period       string    // one of Periods, instead of Since and Until
	Now          time.Time // zero means time.Now
	By           []Column  // columns to group by
	Raw          bool      // sum up the requests in the remaining segments instead of reading the ledger's files
}

// Usage is the result of a Query.
type Usage struct {
	By    []Column
	Rows  []Row // sorted by their values, in the order of By
	Total Sums
	// TokensPerByte is the largest number of tokens for each byte of a prompt's text, by model, at any time.
	TokensPerByte map[string]float64
	// Damage lists what could not be read and is missing from the sums.
	Damage []Damage
}

// Row holds the sums of all requests that have the same values in the columns of the query.
type Row struct {
	Values []string // one for each column
	Sums
}

// maxTries bounds how often a query is restarted because the gateway has folded a segment meanwhile.
const maxTries = 5

// ReadUsage reads the ledger in a journal's folder, which a running gateway may be writing. zone must be the zone of
// the journal. A folder that does not exist counts as an empty ledger.
func ReadUsage(dir string, zone *time.Location, q Query) (*Usage, error) {
	from, to, err := q.days(zone)
	if err != nil {
		return nil, err
	}
	if slices.Contains(q.By, ByGateway) {
		return nil, queryError("column gateway: only for running gateways, with --admin")
	}
	for try := 1; ; try++ {
		u, err := readUsage(dir, zone, from, to, q)
		switch {
		case err == nil:
			u.TokensPerByte = readRatios(dir)
			return u, nil
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("journal: %w", err)
		case try == maxTries:
			return nil, errors.New("journal: files were removed while they were read; try again")
		}
	}
}

var errReadOnly = errors.New("the journal is opened read-only")

// errGone is returned if a file was removed after the folder was listed.
var errGone = fmt.Errorf("file removed: %w", fs.ErrNotExist)

func readUsage(dir string, zone *time.Location, from, to int32, q Query) (*Usage, error) {
	f, err := list(dir)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = folder{}, nil
	}
	if err != nil {
		return nil, err
	}
	g := newGrouping(q.By)
	// A day without a file has no requests in the segments that the snapshot includes. The folder is listed before the
	// days are read: if a segment is folded in between, either the file of a day includes it, and says so, or the
	// segment itself is read.
	folded := uint64(0)
	if n := len(f.snapshots); n > 0 && !q.Raw {
		folded = f.snapshots[n-1]
	}
	s := newState(zone)
	s.load = func(n int32) *day { d := newDay(n); d.through = folded; return d }
	if !q.Raw {
		for _, n := range f.days {
			if n < from || n > to {
				continue
			}
			d, damage := s.readDay(dir, n)
			if errors.Is(damage.Err, fs.ErrNotExist) {
				return nil, errGone
			}
			g.damaged(damage)
			d.through = max(d.through, folded)
			s.days[n] = d
		}
	}
	for _, n := range f.segments {
		if n <= folded {
			continue
		}
		labels := labelReader{s, make(map[uint32]uint32)}
		damage, err := scanSegment(filepath.Join(dir, segmentName(n)), func(b []byte) {
			switch kind(b[6]) {
			case kindLabels:
				labels.add(b)
			case kindRequest:
				if d := s.dayAt(int64(little.Uint32(b[16:]))); d.number >= from && d.number <= to {
					s.request(b, labels.number(little.Uint32(b[20:])), n)
				}
			}
		})
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, errGone
		case errors.Is(err, errVersion):
			return nil, err
		case errors.Is(err, errHeader):
			err = nil // the file is being created; the gateway reports others that are damaged
		}
		damage.Err = err
		damage.Torn = 0 // the segment is being written
		g.damaged(damage)
	}
	for _, d := range s.days {
		if d.number >= from && d.number <= to {
			g.add(s, d)
		}
	}
	return g.usage(), nil
}

// grouping sums up the rows of days by the columns of a query.
type grouping struct {
	by     []Column
	rows   map[groupKey]*Sums
	total  Sums
	damage []Damage
}

// groupKey holds the values of a row; columns that the query does not group by are zero.
type groupKey struct {
	day int32
	Labels
}

func newGrouping(by []Column) *grouping { return &grouping{by: by, rows: make(map[groupKey]*Sums)} }

func (g *grouping) damaged(d Damage) {
	if d.any() {
		g.damage = append(g.damage, d)
	}
}

func (g *grouping) add(s *state, d *day) {
	for n, sums := range d.rows {
		var k groupKey
		from, to := s.labels[n].fields(), k.fields()
		for _, c := range g.by {
			if c == ByDay {
				k.day = d.number
			} else {
				*to[c-ByKey] = *from[c-ByKey]
			}
		}
		row := g.rows[k]
		if row == nil {
			row = new(Sums)
			g.rows[k] = row
		}
		row.Add(sums)
		g.total.Add(sums)
	}
}

func (g *grouping) usage() *Usage {
	u := &Usage{By: g.by, Total: g.total, Damage: g.damage}
	for k, sums := range g.rows {
		r := Row{Sums: *sums}
		fields := k.fields()
		for _, c := range g.by {
			if c == ByDay {
				r.Values = append(r.Values, dayName(k.day))
			} else {
				r.Values = append(r.Values, *fields[c-ByKey])
			}
		}
		u.Rows = append(u.Rows, r)
	}
	slices.SortFunc(u.Rows, func(a, b Row) int { return slices.Compare(a.Values, b.Values) })
	return u
}
