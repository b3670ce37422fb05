package proxy

import (
	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/endpoint"
	"github.com/sluice-gateway/sluice/proxy/internal/otlp/content"
)

// startTrace begins the trace of a request that has been admitted, or continues that of a client that is trusted.
func startTrace(x *completion, h *fasthttp.RequestHeader) {
	s, r := x.server, &x.record
	if r.Trace != "" && r.Key != "" && s.started.Telemetry.Trust == config.TrustKeys {
		x.Traceparent, x.Tracestate = r.Trace, endpoint.Tracestate(h)
	}
	if sampler := s.exporter.Sampler(); sampler != nil {
		r.Span = sampler.Begin(x.Traceparent, s.random(), s.random(), r.Began)
		x.Span = &r.Span
	}
}

// captureContent keeps the prompt of an admitted request whose trace may have content.
func captureContent(x *completion, h *fasthttp.RequestHeader) {
	c, r := x.server.started.Telemetry.Content, &x.record
	if c == nil || !r.Span.Valid() || x.Key == access.Anonymous() || !c.Applies(r.Model, r.Key) {
		return
	}
	const randomBits = 32
	if float64(r.Span.Base>>(64-randomBits)) >= c.Sample*(1<<randomBits) {
		return
	}
	x.Presented = admission.PresentedKeys(h)
	doc, _ := x.Request.Document()
	r.Content = content.Prompt(doc, x.API.Name, int(c.Max))
}

// endContent adds the response to the content of a request that has ended, and removes credentials from it.
func endContent(x *completion) {
	c := x.record.Content
	if c == nil {
		return
	}
	if recorder, ok := x.Observer().(*content.Recorder); ok {
		recorder.AddTo(c)
	}
	redact := x.generation.NewFileRedactor(x.Presented)
	c.System, c.Input, c.Output = redact(c.System), redact(c.Input), redact(c.Output)
}
