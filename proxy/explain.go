package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/endpoint"
	"github.com/sluice-gateway/sluice/proxy/internal/exchange"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/modellist"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

// ExplainRequest describes a request whose routing is to be explained.
type ExplainRequest = admin.ExplainRequest

// Explained describes how a request would be routed, as JSON and as text.
type Explained = admin.Explained

// explain implements Server.Explain for a generation.
func explain(ctx context.Context, s *Server, g *generation, r *ExplainRequest) (Explained, error) {
	id, name := clientapi.Chat, cmp.Or(r.API, s.APIs[clientapi.Chat].Name)
	for id < clientapi.NumAPIs && s.APIs[id].Name != name {
		id++
	}
	if id == clientapi.NumAPIs {
		return Explained{}, fmt.Errorf("unknown api %q: want %s", clientapi.Quotable(r.API), strings.Join(config.APINames(), ", "))
	}
	x := &completion{server: s, generation: g, Exchange: exchange.Exchange{API: &s.APIs[id], HTTP11: true}}
	x.Limiter = &s.Admission.Limiter
	if e := s.Admission.Reserve(&x.holds.Reservation); e != nil {
		return Explained{}, errors.New(e.Message)
	}
	x.acquireWorkspace(contextChecker{ctx})
	defer func() {
		x.Documents.Release(&s.Services, x.API)
		x.holds.Reservation.Release()
		x.API.PutWorkspace(x.Workspace)
		if x.routed != nil {
			s.routings.put(x.routed)
		}
	}()
	head, err := acceptExplained(x, r)
	if err != nil {
		return Explained{}, err
	}
	x.describeRouting(head)
	if len(r.Body) == 0 {
		x.routed.request.Identity.Doc = nil // a placeholder prompt identifies no conversation
	}
	return decideExplained(ctx, x)
}

// contextChecker makes a Watcher watch a context instead of a client.
type contextChecker struct{ context.Context }

func (c contextChecker) CheckClient() error { return c.Err() }

// acceptExplained initialises x from r, as accept does from a client's request.
func acceptExplained(x *completion, r *ExplainRequest) (*fasthttp.RequestHeader, error) {
	g, now := x.generation, x.server.Now()
	x.record.Began, x.record.RequestID, x.holds.AdmittedAt = now, endpoint.NewRequestID(), now
	switch {
	case g.keys == nil && r.Key != "":
		return nil, errors.New(`authentication is disabled (auth = "none"): leave the key out`)
	case g.keys == nil:
		x.Key = access.Anonymous()
	case r.Key == "":
		return nil, errors.New("no key given: want the name of a key in the configuration")
	default:
		key, err := g.keys.Named(r.Key, now)
		if errors.Is(err, access.ErrUnknown) {
			if g.keys.Has([]byte(r.Key)) {
				return nil, errors.New("the key is given by its secret: want its name in the configuration")
			}
			return nil, fmt.Errorf("no key is named %q: `sluice check --values` lists the keys", clientapi.Quotable(r.Key))
		}
		if err != nil {
			return nil, fmt.Errorf("the key %s would be rejected: %w", r.Key, err)
		}
		x.Key, x.record.Key = key, key.Name()
	}
	head := new(fasthttp.RequestHeader)
	for name, value := range r.Headers {
		if !httpfield.ValidName(name) || !httpfield.ValidValue(value) {
			return nil, errors.New("a header has an invalid name or value")
		}
		head.Set(name, value)
	}
	if x.API.ID == clientapi.Messages {
		x.Betas = endpoint.Betas(head, func(text []byte) bool { return g.holdsSecret(head, text) })
	}
	if r.Random != "" {
		n, err := strconv.ParseUint(r.Random, 16, 64)
		if err != nil || len(r.Random) != 16 {
			return nil, errors.New("random is not a number of 16 hexadecimal digits, as in the header x-gateway-route")
		}
		x.Random = n
	}
	to := endpoint.Completions(x.API.ID)
	if err := parseExplained(x, r, to); err != nil {
		return nil, err
	}
	if e := x.findUser(head); e != nil {
		return nil, explainedRejection("the key", e)
	}
	facts := x.Request.Describe()
	m, ok := g.catalog.Known(facts.Model)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: `sluice models` lists the models", g.missingModelCause(head, facts.Model, false))
	case !x.Key.Allows(facts.Model):
		return nil, fmt.Errorf("%w: see models in [[keys]]", g.missingModelCause(head, facts.Model, true))
	case m.Kinds&x.API.Kind == 0:
		return nil, modellist.WrongKind(m, x.API.Kind).Cause
	}
	x.Model, x.record.Model, x.Stream = m, m.ID, facts.Stream
	if e := x.filterRequest(to, facts); e != nil {
		return nil, explainedRejection("a filter", e)
	}
	if e := x.fitModel(); e != nil {
		return nil, explainedRejection("the model", e)
	}
	if len(x.Policy.Targets) == 0 {
		return nil, fmt.Errorf("all providers of the model %s are off", m.ID)
	}
	x.holds.Open(0, x.generation.accounts, x.Key, x.User, x.Model, now)
	x.Budget = x.holds.BudgetLeft(now)
	return head, nil
}

// parseExplained parses the body, or a placeholder if there is none.
func parseExplained(x *completion, r *ExplainRequest, to endpoint.ID) error {
	x.Body = append(x.server.Buffers.Get(len(r.Body)), r.Body...)
	if len(r.Body) == 0 {
		x.Body = fmt.Appendf(x.Body, shortPrompts[x.API.ID], jsondoc.AppendEscaped(nil, []byte(r.Model)))
		if r.Stream && x.API.ID != clientapi.Gemini {
			x.Body = append(x.Body[:len(x.Body)-1], `,"stream":true}`...)
		}
	}
	if x.API.ID == clientapi.Gemini {
		if r.Model == "" {
			return errors.New("no model given: the Gemini API has it in the path, not in the body")
		}
		x.Request = x.API.GetRequest()
		x.Request.(clientapi.AddressedRequest).Address(r.Model, r.Stream)
	}
	facts, e := x.parseRequest(to)
	switch {
	case e != nil:
		return explainedRejection("the API", e)
	case r.Model != "" && facts.Model != r.Model:
		return errors.New("the body names another model: leave out one of the two")
	case r.Stream && !facts.Stream:
		return errors.New("the body does not ask for a stream: leave out the stream, or the body")
	}
	return nil
}

// shortPrompts are placeholder requests of each API, as formats for the model's id.
var shortPrompts = [clientapi.NumAPIs]string{
	clientapi.Chat: `{"model":"%s","messages":[{"role":"user","content":"Hello"}]}`, clientapi.Messages: `{"model":"%s","max_tokens":1024,"messages":[{"role":"user","content":"Hello"}]}`,
	clientapi.Responses: `{"model":"%s","input":"Hello"}`, clientapi.Embeddings: `{"model":"%s","input":"Hello"}`, clientapi.Rerank: `{"model":"%s","query":"Hello","documents":["Hello"]}`,
	clientapi.LegacyCompletions: `{"model":"%s","prompt":"Hello"}`, clientapi.Moderations: `{"model":"%s","input":"Hello"}`, clientapi.Gemini: `{"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}%.0s`,
}

// explainedRejection returns the error of a request that is rejected before it is routed. It leaves out e's message,
// which may repeat the request.
func explainedRejection(by string, e *apierror.Error) error {
	reason := cmp.Or(e.Code, string(e.Kind))
	if e.Param != "" {
		reason += " at " + clientapi.Quotable(e.Param)
	}
	return fmt.Errorf("the request is rejected by %s before it is routed: %s", by, reason)
}

// oddsDraws is the number of samples from which the odds are estimated.
const oddsDraws = 256

// decideExplained makes the routing decision as tryTargets does, and describes it.
func decideExplained(ctx context.Context, x *completion) (Explained, error) {
	request, d := &x.routed.request, &x.routed.decision
	request.Explained = true
	failed := x.Policy.Decide(ctx, request, x.holds.AdmittedAt, d)
	if err := ctx.Err(); err != nil {
		return Explained{}, err
	}
	var e *apierror.Error
	if failed != nil {
		e = failure.ForClient(failure.Routing(failed))
	} else {
		e = foreseeSkips(x, d)
	}
	var odds []routing.Odds
	if failed == nil && d.Draws() {
		drawn := x.Random
		odds = x.Policy.Odds(func(n int, other *routing.Decision) bool {
			x.Random = uint64(n) * 0x9e3779b97f4a7c15 // evenly spread
			request.Random = x.Random
			return n < oddsDraws && x.Policy.Decide(ctx, request, x.holds.AdmittedAt, other) == nil
		})
		x.Random = drawn
	}
	text := fmt.Appendf(nil, "model     %s, by %s\n", x.record.Model, x.API.Name)
	body := fmt.Appendf(nil, `{"api":%q,"random":"%016x"`, x.API.Name, x.Random)
	if x.record.Key != "" {
		text = fmt.Appendf(text, "key       %s\n", x.record.Key)
		body = append(jsondoc.AppendEscaped(append(body, `,"key":"`...), []byte(x.record.Key)), '"')
	}
	if x.User.Name != "" {
		text = fmt.Appendf(text, "user      %s\n", x.User.Name)
		body = append(jsondoc.AppendEscaped(append(body, `,"user":"`...), []byte(x.User.Name)), '"')
	}
	text = d.AppendText(text)
	if e != nil {
		text = fmt.Appendf(text, "\nThe request is rejected: %d %s\n", e.Status, e.Code)
		body = fmt.Appendf(body, `,"error":{"status":%d,"code":%q}`, e.Status, e.Code)
	}
	if len(odds) > 1 {
		text, body = append(text, "\nThe order is random. Share of such requests by first target:\n"...), append(body, `,"odds":[`...)
		for n, o := range odds {
			text = fmt.Appendf(text, "  %5.1f %%  %s\n", 100*o.Share, o.Target)
			if n > 0 {
				body = append(body, ',')
			}
			body = fmt.Appendf(body, `{"target":%q,"share":%.3f}`, o.Target, o.Share)
		}
		body = append(body, ']')
	}
	body = d.AppendJSON(append(body, `,"decision":`...))
	return Explained{JSON: append(body, '}', '\n'), Text: text}, nil
}

// foreseeSkips marks the targets at which no attempt would be made because of their price, or of the limits and budgets
// of their provider. It returns the error if that applies to all of them.
func foreseeSkips(x *completion, d *routing.Decision) (e *apierror.Error) {
	skipped := 0
	for _, i := range d.Order() {
		t := &x.Policy.Targets[i]
		code, failed := routing.Unpriced, x.holds.CheckPriced(t)
		if failed == nil {
			code, failed = routing.Spent, x.holds.CheckTarget(x.Request, t, x.Stream, x.holds.AdmittedAt)
		}
		if failed != nil {
			d.Foresee(i, code)
			skipped++
			if code == routing.Spent || e == nil {
				e = failed // as in startAttempt
			}
		}
	}
	if skipped < len(d.Order()) {
		return nil
	}
	return e
}
