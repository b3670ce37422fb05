package bedrock

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Event reads one event of a stream. Its name is the type of the event, exception or error.
//
// Only tool calls have a contentBlockStart; blocks of text and reasoning start with their first delta. The usage
// follows the stop reason in a separate event.
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
		return readStop(a, r)
	case "metadata":
		return readMetadata(a, r)
	default:
		a.Unknown(e.Name)
	}
	return nil
}

// readStop reads messageStop. Only the event with the usage may follow.
func readStop(a *provider.Answer, r *json.Reader) error {
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

// readMetadata reads metadata, the last event.
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

// startResponse starts the response. The provider sends its ID in a header, and no model name.
func startResponse(a *provider.Answer, f family) {
	var id []byte
	if request := provider.FitName(a.Header("x-amzn-requestid")); len(request) > 0 && len(request) <= abi.MaxName-len("chatcmpl-") {
		id = append(append(id, "chatcmpl-"...), request...)
	}
	a.Start(id, nil, families[f%family(len(families))].format)
}

// maxCount is the upper limit for a token count; higher values are invalid.
const maxCount = 1 << 40

// emitUsage reports token counts. Tokens of the cache are not included in the prompt's count.
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

// emitCacheDetails reports the number of tokens that were written to the cache for an hour.
func emitCacheDetails(a *provider.Answer, r *json.Reader) {
	for l := r.Array(); l.Next(); {
		entry := json.Value(r.Raw())
		if n, ok := entry.Get("inputTokens").Int(); ok && n >= 0 && n <= maxCount && entry.Get("ttl").Is("1h") {
			a.Usage(abi.UsageCacheWrite1h, n)
		}
	}
}

// emitServiceTier reports the service tier of the response.
func emitServiceTier(a *provider.Answer, tier json.Value) {
	if kind := tier.Get("type"); kind.Kind() == json.String {
		a.Extra(abi.ScopeAnswer, 0, 0, "service_tier", kind)
	}
}
