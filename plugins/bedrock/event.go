package bedrock

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Event reads one event of a stream. Its name is the event's type, or that of the exception or error.
//
// Blocks of text and reasoning begin with their first delta; only tool calls have an event for their beginning. The
// usage comes after the stop reason, in an event of its own.
func (p *bedrock) Event(a *provider.Answer, e *provider.Event) error {
	if e.Kind != abi.EventPlain {
		return translate.AWSException(e)
	}
	r := &p.reader
	if string(e.Name) == "contentBlockDelta" {
		var d delta
		if !d.readPlain(r, e.Data) {
			r.Reset(e.Data)
			d.read(r)
			if err := r.End(); err != nil {
				return err
			}
		}
		return d.emit(a)
	}
	r.Reset(e.Data)
	switch string(e.Name) {
	case "contentBlockStart":
		return beginBlock(a, r)
	case "contentBlockStop":
		index := blockIndex(r)
		if err := r.End(); err != nil {
			return err
		}
		endBlock(a, index)
	case "messageStart":
		startResponse(a, loadState(a).family)
		return r.End()
	case "messageStop":
		return stop(a, r)
	case "metadata":
		return readMetadata(a, r)
	default:
		a.Unknown(e.Name)
	}
	return nil
}

// stop reads messageStop. Only the usage may follow.
func stop(a *provider.Answer, r *json.Reader) error {
	var reason []byte
	for o := r.Object(); o.Next(); {
		if string(r.Name()) == "stopReason" {
			reason = r.Inside()
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	s := loadState(a)
	s.flushRedacted(a)
	if err := emitFinish(a, reason); err != nil {
		return err
	}
	s.stopped = true
	s.save(a)
	a.DoneAtEnd()
	return nil
}

// readMetadata reads the last event.
func readMetadata(a *provider.Answer, r *json.Reader) error {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "usage":
			emitUsage(a, r)
		case "serviceTier":
			emitServiceTier(a, r.Raw())
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if loadState(a).stopped {
		a.Done()
	}
	return nil
}

// startResponse starts the response. The provider sends its id in a header and does not name the model.
func startResponse(a *provider.Answer, f family) {
	var id []byte
	if request := provider.FitName(a.Header("x-amzn-requestid")); len(request) > 0 && len(request) <= abi.MaxName-len("chatcmpl-") {
		id = append(append(id, "chatcmpl-"...), request...)
	}
	a.Start(id, nil, families[f%family(len(families))].format)
}

// maxCount bounds a token count; higher values are invalid.
const maxCount = 1 << 40

// emitUsage reads token counts. What the cache held is not part of the prompt's count.
func emitUsage(a *provider.Answer, r *json.Reader) {
	count := func(kind abi.UsageKind) {
		if n, ok := r.Int(); ok && n >= 0 && n <= maxCount {
			a.Usage(kind, n)
		}
	}
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "inputTokens":
			count(abi.UsagePrompt)
		case "outputTokens":
			count(abi.UsageCompletion)
		case "cacheReadInputTokens":
			count(abi.UsageCachedBeside)
		case "cacheWriteInputTokens":
			count(abi.UsageCacheWriteBeside)
		case "cacheDetails":
			emitCacheDetails(a, r)
		}
	}
}

// emitCacheDetails reads how many tokens were written to the cache for an hour.
func emitCacheDetails(a *provider.Answer, r *json.Reader) {
	for l := r.Array(); l.Next(); {
		one := json.Value(r.Raw())
		if n, ok := one.Get("inputTokens").Int(); ok && n >= 0 && n <= maxCount && one.Get("ttl").Is("1h") {
			a.Usage(abi.UsageCacheWrite1h, n)
		}
	}
}

// emitServiceTier passes on which tier of the service has answered.
func emitServiceTier(a *provider.Answer, tier json.Value) {
	if kind := tier.Get("type"); kind.Kind() == json.String {
		a.Extra(abi.ScopeAnswer, 0, 0, "service_tier", kind)
	}
}
