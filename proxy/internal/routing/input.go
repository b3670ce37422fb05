package routing

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// maxReadValue is the maximum length of a header value or of the metadata in a router's input. Longer ones are left
// out.
const maxReadValue = 8 << 10

// appendInput appends the input document of a router plugin. See sdk/abi/README.md for the schema.
func (d *Decision) appendInput(dst []byte, r *Request, now time.Time) []byte {
	dst = append(d.appendSummary(dst, r), `,"targets":[`...)
	for n, i := range d.order {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = d.appendTarget(dst, n, i, r, now)
	}
	return append(dst, `]}`...)
}

// appendSummary appends the beginning of the input document, up to the end of the summary.
func (d *Decision) appendSummary(dst []byte, r *Request) []byte {
	dst = r.Summary.AppendSummary(append(dst, `{"summary":`...))
	return append(d.appendFacts(dst[:len(dst)-1], r), '}')
}

// appendFacts appends the members of the summary that only routers receive.
func (d *Decision) appendFacts(dst []byte, r *Request) []byte {
	dst = appendString(append(dst, `,"key":`...), r.Key)
	dst = appendString(append(dst, `,"team":`...), r.Team)
	dst = append(dst, `,"key_tags":{`...)
	first := true
	name := func(name string) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(appendString(dst, name), ':')
	}
	for _, tag := range slices.Sorted(maps.Keys(r.KeyTags)) {
		name(tag)
		dst = appendString(dst, r.KeyTags[tag])
	}
	dst = append(dst, '}')
	hash := func(name string, h Hash) {
		if h.Known {
			dst = append(append(append(dst, `,"`...), name...), `":"`...)
			dst = append(appendHex(dst, h.Sum), '"')
		}
	}
	hash("affinity", d.Affinity)
	if !d.router.Compact || d.router.Parts&abi.RouterHashes != 0 {
		hash("conversation", r.Identity.Conversation())
		hash("user", r.Identity.User())
	}
	number := func(name string, n int64) {
		dst = append(append(append(dst, `,"`...), name...), `":`...)
		dst = strconv.AppendInt(dst, n, 10)
	}
	number("max_tokens_asked", r.MaxTokens)
	number("prompt_tokens", r.PromptTokens)
	number("messages", int64(r.Messages))
	number("images", int64(r.Images))
	number("tools", int64(r.Tools))
	if len(d.router.Reads) == 0 {
		return dst
	}
	dst = append(dst, `,"headers":{`...)
	first = true
	metadata := false
	for _, part := range d.router.Reads {
		header, ok := strings.CutPrefix(part, "header:")
		if !ok {
			metadata = true
			continue
		}
		if r.Identity.Header == nil {
			continue
		}
		if v := r.Identity.Header.Peek(header); len(v) > 0 && len(v) <= maxReadValue {
			name(header)
			dst = append(jsondoc.AppendEscaped(append(dst, '"'), v), '"')
		}
	}
	dst = append(dst, '}')
	if metadata && r.Identity.Doc != nil {
		if v := r.Identity.Doc.Root().Get("metadata"); v.Kind() == jsondoc.Object && len(v.Raw()) <= maxReadValue {
			dst = append(append(dst, `,"metadata":`...), v.Raw()...)
		}
	}
	return dst
}

// appendTarget appends the target with an index in the policy as the nth one in a router's input.
func (d *Decision) appendTarget(dst []byte, n, index int, r *Request, now time.Time) []byte {
	t, c := &d.policy.Targets[index], &d.candidates[index]
	s := t.Stats.Snapshot(now)
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	dst = appendString(append(dst, `,"provider":`...), t.Provider)
	dst = appendString(append(dst, `,"model":`...), t.Model)
	dst = strconv.AppendInt(append(dst, `,"weight":`...), int64(t.Weight), 10)
	dst = strconv.AppendInt(append(dst, `,"priority":`...), int64(t.Priority), 10)
	dst = strconv.AppendBool(append(dst, `,"fallback":`...), t.Fallback)
	dst = strconv.AppendBool(append(dst, `,"healthy":`...), c.ready)
	dst = strconv.AppendInt(append(dst, `,"inflight":`...), s.Inflight, 10)
	dst = strconv.AppendInt(append(dst, `,"latency_ms":`...), s.Latency.Milliseconds(), 10)
	dst = strconv.AppendFloat(append(dst, `,"error_rate":`...), s.ErrorRate, 'f', 4, 64)
	dst = strconv.AppendInt(append(dst, `,"limited_for_ms":`...), limitedFor(&s, now), 10)
	dst = strconv.AppendFloat(append(dst, `,"tokens_per_second":`...), s.TokensPerSecond, 'f', 1, 64)
	dst = strconv.AppendFloat(append(dst, `,"cached_share":`...), s.CachedShare, 'f', 4, 64)
	dst = strconv.AppendBool(append(dst, `,"caches_prompts":`...), t.CachesPrompts)
	dst = strconv.AppendFloat(append(dst, `,"input_price":`...), t.InputPrice, 'f', -1, 64)
	dst = strconv.AppendFloat(append(dst, `,"output_price":`...), t.OutputPrice, 'f', -1, 64)
	if d.estimateCost(index, r, s.CachedShare) {
		dst = c.cost.Append(append(dst, `,"expected_cost":`...))
	}
	if measurements := t.Measured.Load(now); len(measurements) > 0 {
		dst = append(dst, `,"measurements":{`...)
		for i, m := range measurements {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendFloat(append(appendString(dst, m.Name), ':'), m.Value, 'g', -1, 64)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `,"options":`...)
	if len(t.Options) == 0 {
		dst = append(dst, '{', '}')
	} else {
		dst = append(dst, t.Options...)
	}
	return append(dst, '}')
}

// estimateCost sets the expected cost of a target if the router reads it and the target has a price.
func (d *Decision) estimateCost(index int, r *Request, cachedShare float64) bool {
	t, c := &d.policy.Targets[index], &d.candidates[index]
	if d.router.Parts&abi.RouterCosts == 0 || t.Prices == nil {
		return false
	}
	c.cost, c.costed = r.Summary.ExpectedCost(t, cachedShare), true
	return true
}

// limitedFor returns the milliseconds until the target's rate limit ends, or 0.
func limitedFor(s *Snapshot, now time.Time) int64 {
	if !s.RateLimited {
		return 0
	}
	return max(0, s.Until.Sub(now)).Milliseconds()
}

// appendString appends a text as a JSON string.
func appendString(dst []byte, s string) []byte {
	return append(jsondoc.AppendEscaped(append(dst, '"'), []byte(s)), '"')
}
