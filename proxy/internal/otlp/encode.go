package otlp

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// encoder encodes batches as the requests of OTLP. It is safe for concurrent use.
type encoder struct {
	resource  []byte // an encoded Resource
	version   string // of the gateway
	versions  []metricNames
	newest    bool // whether attributes that are only in genai-2026 are set
	providers *atomic.Pointer[map[string]providerInfo]

	operations *operations
}

func newEncoder(c *config.Telemetry, s Source) encoder {
	var resource message
	a := attributes{&resource, resourceAttributes}
	a.text(attrServiceName, "sluice")
	a.text(attrServiceVersion, s.Version)
	a.text(attrServiceInstance, s.Instance)
	if name, err := os.Hostname(); err == nil {
		a.text("host.name", name)
	}
	e := encoder{
		resource: resource.buf, version: s.Version,
		newest: c.Uses(config.NamesGenAI2026), providers: new(atomic.Pointer[map[string]providerInfo]), operations: new(operations),
	}
	for _, name := range c.Names {
		names := metricVersions[name]
		if name != config.Names137 && c.Uses(config.Names137) {
			names.otherDuration = "" // both versions have it under the same name
		}
		e.versions = append(e.versions, names)
	}
	return e
}

func (e *encoder) setProviders(cfg *config.Config) {
	all := make(map[string]providerInfo, len(cfg.Providers))
	for i := range cfg.Providers {
		all[cfg.Providers[i].Name] = describeProvider(&cfg.Providers[i])
	}
	e.providers.Store(&all)
}

func (e *encoder) provider(name string) providerInfo {
	if all := e.providers.Load(); all != nil {
		if info, ok := (*all)[name]; ok {
			return info
		}
	}
	return providerInfo{system: name}
}

func parsePort(text string) int64 {
	n, _ := strconv.ParseUint(text, 10, 16)
	return int64(n)
}

// The numbers of fields, by message. A TracesData has the fields of an ExportTraceServiceRequest, and a LogsData those of
// an ExportLogsServiceRequest.
const (
	resourceAttributes protowire.Number = 1

	// TracesData, ResourceSpans and ScopeSpans, and the same of logs.
	resourceItems, resourceField, scopeItems, scopeField, items protowire.Number = 1, 1, 2, 1, 2
	scopeNameField, scopeVersionField                           protowire.Number = 1, 2

	spanTraceID, spanSpanID, spanParent, spanName, spanKind protowire.Number = 1, 2, 4, 5, 6
	spanStart, spanEnd, spanAttributes, spanLinks           protowire.Number = 7, 8, 9, 13
	spanStatus, spanFlagsField                              protowire.Number = 15, 16
	linkTraceID, linkSpanID, linkFlags                      protowire.Number = 1, 2, 6
	statusMessage, statusCode                               protowire.Number = 2, 3

	logTime, logSeverity, logSeverityText, logBody protowire.Number = 1, 2, 3, 5
	logAttributes, logFlags, logTraceID, logSpanID protowire.Number = 6, 8, 9, 10
	logObserved                                    protowire.Number = 11
)

// batch encodes the spans or lines that fill appends, with the resource and the scope.
func (e *encoder) batch(size int, fill func(m *message)) []byte {
	m := &message{make([]byte, 0, size)}
	m.nested(resourceItems, func(m *message) {
		m.bytes(resourceField, e.resource)
		m.nested(scopeItems, func(m *message) {
			m.nested(scopeField, func(m *message) {
				m.text(scopeNameField, scopeName)
				m.text(scopeVersionField, e.version)
			})
			fill(m)
		})
	})
	return m.buf
}

// traces encodes the traces of requests.
func (e *encoder) traces(records []telemetry.Record) []byte {
	const traceSize = 2 << 10 // of a request with two attempts
	return e.batch(traceSize*len(records), func(m *message) {
		for i := range records {
			r := &records[i]
			m.nested(items, func(m *message) { e.requestSpan(m, r) })
			for n := range r.Tries {
				m.nested(items, func(m *message) { e.attemptSpan(m, r, n) })
			}
		}
	})
}

// spanFlags are the flags of a span that is sampled: the parent is known to be in another process, or in this one.
func spanFlags(remote bool) uint32 {
	const sampled = 1
	flags := uint32(sampled | tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	if remote {
		flags |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	return flags
}

// span is what all spans have. A span without a parent begins a trace.
type span struct {
	number     int // as in telemetry.SpanContext.Span
	parent     [8]byte
	name       string
	kind       tracepb.Span_SpanKind
	began, end uint64
	remote     bool   // the parent is in another process
	failed     bool   // the request or attempt has failed
	code       string // why
}

func (s *span) append(m *message, c *telemetry.SpanContext) {
	id := c.Span(s.number)
	m.bytes(spanTraceID, c.TraceID[:])
	m.bytes(spanSpanID, id[:])
	if s.parent != [8]byte{} {
		m.bytes(spanParent, s.parent[:])
	}
	m.text(spanName, s.name)
	m.varint(spanKind, uint64(s.kind))
	m.fixed64(spanStart, s.began)
	m.fixed64(spanEnd, s.end)
	m.fixed32(spanFlagsField, spanFlags(s.remote))
	if s.failed {
		m.nested(spanStatus, func(m *message) {
			m.text(statusMessage, s.code)
			m.varint(statusCode, uint64(tracepb.Status_STATUS_CODE_ERROR))
		})
	}
}

// requestSpan appends the span of a request, from the client's point of view.
func (e *encoder) requestSpan(m *message, r *telemetry.Record) {
	c := &r.Span
	s := span{
		parent: c.Parent, name: r.Method + " " + r.Path, kind: tracepb.Span_SPAN_KIND_SERVER,
		began: nanos(r.Began), end: nanos(r.Began) + uint64(max(r.Ended.Sub(r.Began), 0)), remote: true, failed: r.Failed(), code: telemetry.Code(r.Code),
	}
	if c.Link != nil {
		s.kind, s.name, s.remote = tracepb.Span_SPAN_KIND_INTERNAL, "shadow "+r.Model, false
		m.nested(spanLinks, func(m *message) {
			id := c.Link.Span(0)
			m.bytes(linkTraceID, c.Link.TraceID[:])
			m.bytes(linkSpanID, id[:])
			m.fixed32(linkFlags, spanFlags(false))
		})
	}
	s.append(m, c)
	a := attributes{m, spanAttributes}
	a.text(attrMethod, r.Method)
	a.text(attrRoute, r.Path)
	a.number(attrStatus, int64(r.Status))
	a.text(attrRequest, r.RequestID)
	a.text(attrKey, r.Key)
	principal, identity := r.Principal()
	a.text(attrPrincipal, principal)
	a.text(attrIdentity, identity)
	a.text(attrTeam, r.Team)
	a.text(attrUser, r.User)
	a.text(attrModel, r.Model)
	a.text(attrProvider, r.Provider)
	a.text(attrTarget, r.Target)
	a.text(attrRule, r.Rule)
	a.text(attrTags, r.Tags)
	a.text(attrFilters, filterUses(r.Filters))
	a.text(attrRouting, string(r.Route))
	a.text(attrWarnings, r.Warnings)
	a.number(attrGeneration, r.Generation)
	a.text(attrConfigDigest, r.Config)
	if r.Hold > 0 {
		a.amount(attrHold, r.Hold)
	}
	a.bool(attrComplete, r.Complete)
	a.count(attrAttempts, int64(r.Attempts))
	if r.Priced {
		a.amount(attrCost, r.Cost)
	}
	if unused := r.UnusedCost(); unused > 0 {
		a.amount(attrUnusedCost, unused)
	}
	if r.UncertainCost > 0 {
		a.amount(attrUncertainCost, r.UncertainCost)
	}
	a.number(attrCancelledTokens, r.CancelledTokens)
	a.number(attrFailedTokens, r.FailedTokens)
	a.number(attrDropped, int64(r.Dropped))
	a.number(attrFuel, r.Fuel)
	if r.Code != "" {
		a.text(attrErrorType, telemetry.Code(r.Code))
		a.text(attrCode, r.Code)
	}
}

// filterUses describes filters and their decisions as one text: PLUGIN DECISION, separated by commas. A plugin with a
// module is PLUGIN@DIGEST.
func filterUses(all []telemetry.FilterUse) string {
	var text []byte
	for i := range all {
		f := &all[i]
		if i > 0 {
			text = append(text, ", "...)
		}
		text = append(text, f.Plugin.Name...)
		if f.Plugin.Digest != "" {
			text = append(append(text, '@'), f.Plugin.Digest...)
		}
		text = append(append(text, ' '), f.Decision...)
	}
	return string(text)
}

// attemptSpan appends the span of the n-th attempt of a request, as the client of a provider. The last attempt that has
// not been cancelled is the one whose usage the record has.
func (e *encoder) attemptSpan(m *message, r *telemetry.Record, n int) {
	t, served := &r.Tries[n], n == r.Served()
	op, provider := operation(r.Path), e.provider(t.Provider)
	began := nanos(r.Began) + uint64(max(t.Began.Sub(r.Began), 0)) // by the monotonic clock, as durations are
	s := span{
		number: n + 1, parent: r.Span.Span(0), name: op + " " + t.Target, kind: tracepb.Span_SPAN_KIND_CLIENT,
		began: began, end: began + uint64(max(t.Took, 0)), failed: t.Code != "", code: attemptCode(t),
	}
	s.append(m, &r.Span)
	a := attributes{m, spanAttributes}
	a.text(attrOperation, op)
	a.text(attrSystem, provider.system)
	a.text(attrRequestModel, t.Target)
	a.text(attrServer, provider.address)
	a.number(attrPort, provider.port)
	a.text(attrProvider, t.Provider)
	a.count(attrAttempt, int64(n+1))
	a.text(attrReason, t.Why)
	a.number(attrStatus, int64(t.Status))
	a.text(attrPlugin, t.Plugin.Name)
	a.text(attrPluginDigest, t.Plugin.Digest)
	a.number(attrFuel, t.Plugin.Fuel)
	if e.newest && r.Stream {
		a.bool(attrStream, true)
		if t.First > 0 {
			a.seconds(attrFirstChunk, t.First)
		}
	}
	if served {
		a.text(attrUpstreamRequest, r.UpstreamID)
		a.number(attrInputTokens, r.Tokens.Prompt)
		a.number(attrOutputTokens, r.Tokens.Completion)
		if e.newest {
			a.number(attrCacheRead, r.Tokens.Cached)
			a.number(attrCacheWrite, r.Tokens.CacheWrite)
			a.number(attrReasoningTokens, r.Tokens.Reasoning)
		}
		if r.UsageEstimated {
			a.bool(attrEstimated, true)
		}
		if r.Priced {
			a.amount(attrCost, r.Cost)
		}
		if c := r.Content; c != nil {
			a.text(attrSystemText, string(c.System))
			a.text(attrInput, string(c.Input))
			a.text(attrOutput, string(c.Output))
			if c.Cut {
				a.bool(attrContentCut, true)
			}
		}
	}
	a.text(attrErrorType, s.code)
}

// attemptCode returns the class of an attempt's error, "" if it has succeeded.
func attemptCode(t *telemetry.Attempt) string {
	if t.Code == telemetry.Cancelled {
		return t.Code
	}
	return telemetry.Code(t.Code)
}

// logs encodes lines of the access log.
func (e *encoder) logs(records []telemetry.Record) []byte {
	const lineSize = 1 << 10
	return e.batch(lineSize*len(records), func(m *message) {
		for i := range records {
			m.nested(items, func(m *message) { appendLine(m, &records[i]) })
		}
	})
}

func appendLine(m *message, r *telemetry.Record) {
	level := r.Level()
	m.fixed64(logTime, nanos(r.Ended))
	m.fixed64(logObserved, nanos(r.Ended))
	m.varint(logSeverity, uint64(int(level)+int(logspb.SeverityNumber_SEVERITY_NUMBER_INFO)))
	m.text(logSeverityText, level.String())
	m.nested(logBody, func(m *message) { m.text(stringValue, telemetry.Message) })
	if r.Span.Sampled {
		id := r.Span.Span(0)
		m.bytes(logTraceID, r.Span.TraceID[:])
		m.bytes(logSpanID, id[:])
		m.fixed32(logFlags, 1)
	}
	a := attributes{m, logAttributes}
	for _, f := range r.Attrs() {
		a.addField(f)
	}
}

// addField adds a field of the access log.
func (a attributes) addField(f slog.Attr) {
	switch f.Value.Kind() {
	case slog.KindString:
		a.text(f.Key, f.Value.String())
	case slog.KindInt64:
		a.count(f.Key, f.Value.Int64())
	case slog.KindBool:
		a.bool(f.Key, f.Value.Bool())
	default: // a duration or an amount, in the form in which it is logged
		number, _ := strconv.ParseFloat(fmt.Sprint(f.Value.Any()), 64)
		a.float(f.Key, number)
	}
}

func nanos(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) }
