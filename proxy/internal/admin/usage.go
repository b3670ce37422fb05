package admin

import (
	"bytes"
	"errors"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/budgets"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
)

// listTypes are the content types of /usage and /budgets, by format.
var listTypes = map[string]string{"json": "application/json", "csv": "text/csv; charset=utf-8", "table": "text/plain; charset=utf-8"}

// usage responds with sums from the ledger. The query has the same parameters as `sluice usage`: since, until,
// period, by and format.
func (s *Server) usage(ctx *fasthttp.RequestCtx) {
	args := ctx.QueryArgs()
	text := func(name string) string { return string(args.Peek(name)) }
	format := text("format")
	if format == "" {
		format = "json"
	}
	by, err := journal.ParseColumns(text("by"))
	var u *journal.Usage
	if err == nil {
		u, err = s.o.Gateway.Usage(journal.Query{Since: text("since"), Until: text("until"), Period: text("period"), By: by})
	}
	var body bytes.Buffer
	if err == nil && u != nil {
		err = u.Write(&body, format)
	}
	switch e := (*journal.QueryError)(nil); {
	case errors.As(err, &e):
		respondText(ctx, fasthttp.StatusBadRequest, "Invalid query: "+e.Error()+".")
	case err != nil:
		s.o.Log.Error("reading the ledger failed", "error", err)
		respondText(ctx, fasthttp.StatusInternalServerError, "Reading the ledger failed.")
	case u == nil:
		respondText(ctx, fasthttp.StatusNotFound, "There is no ledger: set journal in [store].")
	default:
		ctx.SetContentType(listTypes[format])
		ctx.Response.SetBodyRaw(body.Bytes())
	}
}

// budgets responds with budgets, optionally selected by scope and name.
func (s *Server) budgets(ctx *fasthttp.RequestCtx) {
	args := ctx.QueryArgs()
	f := budgets.Filter{Kind: string(args.Peek("scope")), Name: string(args.Peek("name"))}
	format := string(args.Peek("format"))
	if format == "" {
		format = "json"
	}
	var body bytes.Buffer
	err := f.Check()
	if err == nil {
		err = budgets.CheckFormat(format)
	}
	if err != nil {
		respondText(ctx, fasthttp.StatusBadRequest, "Invalid query: "+err.Error()+".")
		return
	}
	if err := s.o.Gateway.Budgets(f).Write(&body, format); err != nil {
		s.o.Log.Error("encoding budgets failed", "error", err)
		respondText(ctx, fasthttp.StatusInternalServerError, "Encoding the budgets failed.")
		return
	}
	ctx.SetContentType(listTypes[format])
	ctx.Response.SetBodyRaw(body.Bytes())
}
