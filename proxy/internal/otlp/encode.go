package otlp

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// encoder encodes batches as the requests of OTLP. It is safe for concurrent use.
type encoder struct {
	resource  *resourcepb.Resource
	scope     *commonpb.InstrumentationScope
	versions  []metricNames
	newest    bool // whether attributes that are only in genai-2026 are set
	providers *atomic.Pointer[map[string]providerInfo]

	operations *operations
}

func newEncoder(c *config.Telemetry, s Source) encoder {
	var a attributes
	a.text(attrServiceName, "sluice")
	a.text(attrServiceVersion, s.Version)
	a.text(attrServiceInstance, s.Instance)
	if name, err := os.Hostname(); err == nil {
		a.text("host.name", name)
	}
	e := encoder{
		resource: &resourcepb.Resource{Attributes: a}, scope: &commonpb.InstrumentationScope{Name: scopeName, Version: s.Version},
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

// marshal encodes a message, which cannot fail: all strings have been made valid UTF-8.
func marshal(m proto.Message) []byte {
	data, _ := proto.Marshal(m)
	return data
}

// traces encodes the traces of requests. A TracesData has the fields of an ExportTraceServiceRequest.
func (e *encoder) traces(records []telemetry.Record) []byte {
	spans := make([]*tracepb.Span, 0, 2*len(records))
	for i := range records {
		r := &records[i]
		spans = append(spans, e.requestSpan(r))
		for n := range r.Tries {
			spans = append(spans, e.attemptSpan(r, n))
		}
	}
	return marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: e.resource, ScopeSpans: []*tracepb.ScopeSpans{{Scope: e.scope, Spans: spans}},
	}}})
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

// requestSpan returns the span of a request, from the client's point of view.
func (e *encoder) requestSpan(r *telemetry.Record) *tracepb.Span {
	c := &r.Span
	s := &tracepb.Span{
		TraceId: c.TraceID[:], SpanId: spanID(c, 0), Name: r.Method + " " + r.Path, Kind: tracepb.Span_SPAN_KIND_SERVER,
		StartTimeUnixNano: nanos(r.Began), EndTimeUnixNano: nanos(r.Began) + uint64(max(r.Ended.Sub(r.Began), 0)), Flags: spanFlags(true),
	}
	if c.Parent != [8]byte{} {
		s.ParentSpanId = c.Parent[:]
	}
	if c.Link != nil {
		s.Kind, s.Name, s.Flags = tracepb.Span_SPAN_KIND_INTERNAL, "shadow "+r.Model, spanFlags(false)
		s.Links = []*tracepb.Span_Link{{TraceId: c.Link.TraceID[:], SpanId: spanID(c.Link, 0), Flags: spanFlags(false)}}
	}
	var a attributes
	a.text(attrMethod, r.Method)
	a.text(attrRoute, r.Path)
	a.number(attrStatus, int64(r.Status))
	a.text(attrRequest, r.RequestID)
	a.text(attrKey, r.Key)
	a.text(attrTeam, r.Team)
	a.text(attrModel, r.Model)
	a.text(attrProvider, r.Provider)
	a.text(attrTarget, r.Target)
	a.text(attrRule, r.Rule)
	a.text(attrTags, r.Tags)
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
	s.Attributes = a
	if r.Failed() {
		s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: telemetry.Code(r.Code)}
	}
	return s
}

// attemptSpan returns the span of the n-th attempt of a request, as the client of a provider. The last attempt that has
// not been cancelled is the one whose usage the record has.
func (e *encoder) attemptSpan(r *telemetry.Record, n int) *tracepb.Span {
	c, t, served := &r.Span, &r.Tries[n], n == r.Served()
	op, provider := operation(r.Path), e.provider(t.Provider)
	began := nanos(r.Began) + uint64(max(t.Began.Sub(r.Began), 0)) // by the monotonic clock, as durations are
	s := &tracepb.Span{
		TraceId: c.TraceID[:], SpanId: spanID(c, n+1), ParentSpanId: spanID(c, 0), Name: op + " " + t.Target, Kind: tracepb.Span_SPAN_KIND_CLIENT,
		StartTimeUnixNano: began, EndTimeUnixNano: began + uint64(max(t.Took, 0)), Flags: spanFlags(false),
	}
	var a attributes
	a.text(attrOperation, op)
	a.text(attrSystem, provider.system)
	a.text(attrRequestModel, t.Target)
	a.text(attrServer, provider.address)
	a.number(attrPort, provider.port)
	a.text(attrProvider, t.Provider)
	a.count(attrAttempt, int64(n+1))
	a.text(attrReason, t.Why)
	a.number(attrStatus, int64(t.Status))
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
	}
	if t.Code != "" {
		code := attemptCode(t)
		a.text(attrErrorType, code)
		s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: code}
	}
	s.Attributes = a
	return s
}

// attemptCode returns the class of an attempt's error, "" if it has succeeded.
func attemptCode(t *telemetry.Attempt) string {
	if t.Code == telemetry.Cancelled {
		return t.Code
	}
	return telemetry.Code(t.Code)
}

// logs encodes lines of the access log. A LogsData has the fields of an ExportLogsServiceRequest.
func (e *encoder) logs(records []telemetry.Record) []byte {
	lines := make([]*logspb.LogRecord, len(records))
	for i := range records {
		r := &records[i]
		l := &logspb.LogRecord{
			TimeUnixNano: nanos(r.Ended), ObservedTimeUnixNano: nanos(r.Ended), Body: textValue(telemetry.Message),
		}
		level := r.Level()
		l.SeverityText, l.SeverityNumber = level.String(), logspb.SeverityNumber(int(level)+int(logspb.SeverityNumber_SEVERITY_NUMBER_INFO))
		if r.Span.Sampled {
			l.TraceId, l.SpanId, l.Flags = r.Span.TraceID[:], spanID(&r.Span, 0), 1
		}
		var a attributes
		for _, f := range r.Attrs() {
			a.addField(f)
		}
		l.Attributes = a
		lines[i] = l
	}
	return marshal(&logspb.LogsData{ResourceLogs: []*logspb.ResourceLogs{{
		Resource: e.resource, ScopeLogs: []*logspb.ScopeLogs{{Scope: e.scope, LogRecords: lines}},
	}}})
}

// addField adds a field of the access log.
func (a *attributes) addField(f slog.Attr) {
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

func spanID(c *telemetry.SpanContext, n int) []byte {
	id := c.Span(n)
	return id[:]
}

func nanos(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) }

// attributes collects attributes. Texts are made valid UTF-8, because others make a message invalid.
type attributes []*commonpb.KeyValue

func (a *attributes) add(name string, v *commonpb.AnyValue) {
	*a = append(*a, &commonpb.KeyValue{Key: name, Value: v})
}

// text adds a text, unless it is empty.
func (a *attributes) text(name, v string) {
	if v != "" {
		a.add(name, textValue(v))
	}
}

// number adds a number, unless it is 0.
func (a *attributes) number(name string, v int64) {
	if v != 0 {
		a.count(name, v)
	}
}

func (a *attributes) count(name string, v int64) {
	a.add(name, &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v}})
}

func (a *attributes) bool(name string, v bool) {
	a.add(name, &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v}})
}

func (a *attributes) float(name string, v float64) {
	a.add(name, &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}})
}

func (a *attributes) seconds(name string, v time.Duration) { a.float(name, v.Seconds()) }

// amount adds an amount in US dollars.
func (a *attributes) amount(name string, v cost.Nano) { a.float(name, v.Dollars()) }

func textValue(v string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: strings.ToValidUTF8(v, "\uFFFD")}}
}
