package openai

import (
	"github.com/sluice-gateway/sluice/proxy/internal/response"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// count is a token count of a provider.
func count(v jsondoc.Value) (n int64, ok bool) {
	n, ok = v.Int()
	return n, ok && n >= 0
}

// first is the first of the members that is a count.
func first(v jsondoc.Value, names ...string) (n int64, ok bool) {
	for _, name := range names {
		if n, ok = count(v.Get(name)); ok {
			return n, true
		}
	}
	return 0, false
}

// usage reads a usage object. Providers that send several of them send totals: the last one counts, whole.
func (r *Reader) usage(b *response.Batch, v jsondoc.Value) {
	if v.Kind() != jsondoc.Object {
		return
	}
	prompt, hasPrompt := first(v, "prompt_tokens", "input_tokens")
	completion, hasCompletion := first(v, "completion_tokens", "output_tokens")
	total, hasTotal := count(v.Get("total_tokens"))
	in, out := v.Get("prompt_tokens_details"), v.Get("completion_tokens_details")
	reasoning, hasReasoning := count(out.Get("reasoning_tokens"))
	if !hasReasoning {
		reasoning, hasReasoning = count(v.Get("reasoning_tokens"))
	}

	// What the total holds beyond prompt and completion is a part of the completion that this provider does not count
	// there: its reasoning if it says so, else nobody knows what.
	beside := abi.UsageReasoning
	if hasTotal && hasPrompt && total > prompt+completion {
		switch {
		case hasReasoning && prompt+completion+reasoning == total:
			beside = abi.UsageReasoningBeside
		default:
			completion, hasCompletion = total-prompt, true
		}
	}
	if hasPrompt {
		b.Usage(abi.UsagePrompt, prompt)
	}
	if hasCompletion {
		b.Usage(abi.UsageCompletion, completion)
	}
	if hasReasoning {
		b.Usage(beside, reasoning)
	}
	cached, ok := count(in.Get("cached_tokens"))
	if !ok {
		cached, ok = first(v, "prompt_cache_hit_tokens", "cached_tokens")
	}
	if ok {
		b.Usage(abi.UsageCached, cached)
	}
	if n, ok := first(in, "cache_creation_tokens", "cache_write_tokens"); ok {
		b.Usage(abi.UsageCacheWrite, n)
	}
	if n, ok := count(in.Get("audio_tokens")); ok {
		b.Usage(abi.UsageAudioIn, n)
	}
	if n, ok := count(out.Get("audio_tokens")); ok {
		b.Usage(abi.UsageAudioOut, n)
	}
	r.usageExtras(b, "", v)
	r.usageExtras(b, "prompt_tokens_details.", in)
	r.usageExtras(b, "completion_tokens_details.", out)
}
