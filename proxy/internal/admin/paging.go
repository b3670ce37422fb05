package admin

import (
	"strconv"

	"github.com/valyala/fasthttp"
)

const (
	pageSize    = 200 // default number of entries in each list
	maxPageSize = 1000
)

// Page selects the same range of entries from every list of a Status that can be long. The Status also contains the
// full length of each list. The zero value selects nothing.
type Page struct {
	Number int `json:"number"` // from 1
	Size   int `json:"size"`   // entries in a page
}

// Cut returns the page's range of entries in a list of length n.
func (p Page) Cut(n int) (from, to int) {
	if p.Number < 1 || p.Size < 1 || p.Number-1 > n/p.Size {
		return n, n
	}
	from = (p.Number - 1) * p.Size
	return from, min(from+p.Size, n)
}

// last returns the number of the last page of the longest list.
func (p Page) last(s *Status) int {
	longest := max(s.ModelsTotal, s.KeysTotal, s.TeamsTotal, s.BudgetsTotal)
	for i := range s.Providers {
		longest = max(longest, s.Providers[i].TargetsTotal)
	}
	return max(1, (longest+p.Size-1)/max(1, p.Size))
}

// requestedPage parses the query of a request. ok is false if it is invalid.
func requestedPage(ctx *fasthttp.RequestCtx) (p Page, ok bool) {
	p = Page{Number: 1, Size: pageSize}
	args := ctx.QueryArgs()
	for _, q := range []struct {
		name string
		v    *int
		max  int
	}{{"page", &p.Number, 1 << 30}, {"size", &p.Size, maxPageSize}} {
		if !args.Has(q.name) {
			continue
		}
		n, err := strconv.Atoi(string(args.Peek(q.name)))
		if err != nil || n < 1 || n > q.max {
			return Page{}, false
		}
		*q.v = n
	}
	return p, true
}
