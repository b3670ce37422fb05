package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// The members of an event that the plugin uses.
const (
	eventCandidates = iota
	eventFeedback
	eventError
	eventModel
	eventID
	eventPrompt
	eventToolPrompt
	eventAnswered
	eventThoughts
	eventCached
	eventPromptParts
	eventAnswerParts
	eventTier
	eventTraffic
)

var eventShape = json.NewShape("candidates", "promptFeedback", "error", "modelVersion", "responseId",
	"usageMetadata.promptTokenCount", "usageMetadata.toolUsePromptTokenCount", "usageMetadata.candidatesTokenCount",
	"usageMetadata.thoughtsTokenCount", "usageMetadata.cachedContentTokenCount",
	"usageMetadata.promptTokensDetails", "usageMetadata.candidatesTokensDetails",
	"usageMetadata.serviceTier", "usageMetadata.trafficType")

// Event reads one event of a stream.
func (p *gemini) Event(a *provider.Answer, e *provider.Event) error {
	p.progress.reset(a)
	r := &p.reader
	if ev, ok := readPlain(r, e.Data); ok {
		if err := ev.emit(a, &p.progress); err != nil {
			return err
		}
		return p.progress.save()
	}
	r.Reset(e.Data)
	if err := p.read(a, r); err != nil {
		return err
	}
	return p.progress.save()
}

// Response reads a non-streaming response or an error. A stream that was requested without alt=sse is an array of its
// events, and some hosts send errors in an array as well.
func (p *gemini) Response(a *provider.Answer, status int, body []byte) error {
	if status >= 300 {
		return failure(bodyError(body), status)
	}
	if translate.Embeds(a) {
		return p.readVectors(a, body)
	}
	p.progress.reset(a)
	r := &p.reader
	r.Reset(body)
	if r.Kind() != json.Array {
		if err := p.read(a, r); err != nil {
			return err
		}
		// Nothing follows this document, whether or not it has a finish reason.
		a.Done()
		return p.progress.save()
	}
	var list json.Reader
	list.Reset(body)
	for l := list.Array(); l.Next(); {
		r.Reset(list.Raw())
		if err := p.read(a, r); err != nil {
			return err
		}
	}
	if err := list.End(); err != nil {
		return err
	}
	return p.progress.save()
}

// read reads an event or a non-streaming response, the document of r.
func (p *gemini) read(a *provider.Answer, r *json.Reader) error {
	m := &p.event
	r.Members(m, eventShape)
	if err := r.End(); err != nil {
		return err
	}
	if m.Kind(eventError) == json.Object {
		return failure(m.Raw(eventError), 0)
	}
	hasCandidates := false
	if m.Has(eventCandidates) {
		r.Reset(m.Raw(eventCandidates))
		for l := r.Array(); l.Next(); {
			hasCandidates = true
			p.candidate.read(r)
			if err := p.candidate.emit(a, &p.progress); err != nil {
				return err
			}
		}
	}
	if id, model := m.Text(eventID), m.Text(eventModel); len(id)+len(model) > 0 {
		a.Start(provider.FitName(id), provider.FitName(model), format)
	}
	emitUsage(a, m, p.progress.ending)
	if !hasCandidates && m.Has(eventFeedback) {
		emitRefusal(a, m.Raw(eventFeedback))
	}
	if p.progress.ending && p.progress.allFinished() {
		a.DoneAtEnd()
	}
	return nil
}

// emitRefusal emits a refusal for a blocked prompt.
func emitRefusal(a *provider.Answer, feedback json.Value) {
	reason := feedback.Get("blockReason").Text()
	if len(reason) == 0 {
		return
	}
	message := feedback.Get("blockReasonMessage").Inside()
	if len(message) == 0 {
		message = append([]byte("The provider blocked the prompt: "), feedback.Get("blockReason").Inside()...)
	}
	a.Refusal(0, abi.EncodingEscaped, message)
	a.Usage(abi.UsageCompletion, 0) // the model wrote none of the refusal's tokens
	a.Finish(0, abi.FinishContentFilter, provider.FitName(reason))
	a.DoneAtEnd()
}

// maxCount is the upper limit for a token count; higher values are invalid.
const maxCount = 1 << 40

// readCount returns a token count. It returns 0, false if the count is absent or invalid.
func readCount(m *json.Members, k int) (n int64, present bool) {
	if !m.Has(k) {
		return 0, false
	}
	n, present = m.Int(k)
	if n < 0 || n > maxCount {
		return 0, false
	}
	return n, present
}

// emitUsage reports token counts, which are totals of the response so far; the latest one counts. Thoughts are not
// included in the candidates' count, and prompt tokens of built-in tools are not included in the prompt's count; cached
// tokens are. last marks the final counts, whose details by modality are read as well.
func emitUsage(a *provider.Answer, m *json.Members, last bool) {
	prompt, prompted := readCount(m, eventPrompt)
	candidates, answered := readCount(m, eventAnswered)
	thoughts, thought := readCount(m, eventThoughts)
	if prompted {
		tools, _ := readCount(m, eventToolPrompt)
		a.Usage(abi.UsagePrompt, prompt+tools)
	}
	// The provider omits counts of zero, so a missing count next to another one is zero.
	if prompted || answered || thought {
		a.Usage(abi.UsageCompletion, candidates+thoughts)
	}
	if thought {
		a.Usage(abi.UsageReasoning, thoughts)
	}
	if cached, ok := readCount(m, eventCached); ok {
		a.Usage(abi.UsageCached, cached)
	}
	emitServiceTier(a, m)
	if last {
		emitAudioUsage(a, abi.UsageAudioIn, m.Raw(eventPromptParts))
		emitAudioUsage(a, abi.UsageAudioOut, m.Raw(eventAnswerParts))
	}
}

// emitServiceTier reports the service tier that served the request, unless it is the standard one. The Gemini API sends
// its name, Vertex AI a traffic type such as ON_DEMAND_FLEX or PROVISIONED_THROUGHPUT.
func emitServiceTier(a *provider.Answer, m *json.Members) {
	tier := m.Text(eventTier)
	if len(tier) == 0 {
		tier = m.Text(eventTraffic)
	}
	if len(tier) == 0 || string(tier) == "standard" || string(tier) == "ON_DEMAND" {
		return
	}
	name := bytes.TrimPrefix(bytes.ToLower(tier), []byte("on_demand_"))
	a.Extra(abi.ScopeAnswer, 0, 0, "service_tier", json.AppendString(nil, name))
}

// emitAudioUsage reports how many of the counted tokens are audio.
func emitAudioUsage(a *provider.Answer, kind abi.UsageKind, parts json.Value) {
	var r json.Reader
	r.Reset(parts)
	for l := r.Array(); l.Next(); {
		one := json.Value(r.Raw())
		if n, ok := one.Get("tokenCount").Int(); ok && n >= 0 && n <= maxCount && one.Get("modality").Is("AUDIO") {
			a.Usage(kind, n)
		}
	}
}

// badResponse returns the failure of an invalid response.
func badResponse(text string) error { return sdk.Fail(abi.FailBadAnswer, text) }
