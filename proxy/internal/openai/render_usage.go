package openai

import (
	"bytes"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// usageMembers holds the extra members of the usage object and of the two objects in it.
type usageMembers struct{ top, prompt, completion members }

func (x *usageMembers) reset() {
	x.top.reset()
	x.prompt.reset()
	x.completion.reset()
}

// object returns the object that an extra member of the usage belongs to, and its name in that object.
func (x *usageMembers) object(name []byte) (to *members, inner []byte) {
	if rest, ok := bytes.CutPrefix(name, []byte(response.PromptDetails+".")); ok {
		return &x.prompt, rest
	}
	if rest, ok := bytes.CutPrefix(name, []byte(response.CompletionDetails+".")); ok {
		return &x.completion, rest
	}
	return &x.top, name
}

// appendUsage appends the usage object, with the details that the provider gave.
func (r *Renderer) appendUsage(dst []byte, u *response.Usage) []byte {
	dst = append(dst, '{')
	dst = appendCount(dst, "prompt_tokens", u.Prompt)
	dst = appendCount(append(dst, ','), "completion_tokens", u.Completion)
	dst = appendCount(append(dst, ','), "total_tokens", u.Total)

	dst, from := openDetails(dst, response.PromptDetails)
	if u.Has(abi.UsageCached, abi.UsageCachedBeside) {
		dst = appendCount(append(dst, ','), "cached_tokens", u.Cached)
	}
	if u.Has(abi.UsageCacheWrite, abi.UsageCacheWriteBeside) {
		dst = appendCount(append(dst, ','), "cache_creation_tokens", u.CacheWrite)
	}
	if u.CacheWrite1h > 0 {
		dst = appendCount(append(dst, `,"cache_creation_token_details":{`...), "ephemeral_5m_input_tokens", max(u.CacheWrite-u.CacheWrite1h, 0))
		dst = append(appendCount(append(dst, ','), "ephemeral_1h_input_tokens", u.CacheWrite1h), '}')
	}
	if u.Has(abi.UsageAudioIn) {
		dst = appendCount(append(dst, ','), "audio_tokens", u.AudioIn)
	}
	dst = closeDetails(r.usage.prompt.appendTo(dst), from, response.PromptDetails)

	dst, from = openDetails(dst, response.CompletionDetails)
	if u.Has(abi.UsageReasoning, abi.UsageReasoningBeside) {
		dst = appendCount(append(dst, ','), "reasoning_tokens", u.Reasoning)
	}
	if u.Has(abi.UsageAudioOut) {
		dst = appendCount(append(dst, ','), "audio_tokens", u.AudioOut)
	}
	dst = closeDetails(r.usage.completion.appendTo(dst), from, response.CompletionDetails)

	dst = r.usage.top.appendTo(dst)
	if u.Priced {
		dst = u.Cost.Append(append(dst, `,"cost":`...))
	}
	if u.Estimated {
		dst = append(dst, `,"estimated":true`...)
	}
	return append(dst, '}')
}

func appendCount(dst []byte, name string, n int64) []byte {
	dst = append(append(append(dst, '"'), name...), `":`...)
	return strconv.AppendInt(dst, n, 10)
}

// openDetails starts a member that is an object. from is the position of the first member's comma.
func openDetails(dst []byte, name string) (_ []byte, from int) {
	dst = append(append(append(dst, `,"`...), name...), `":{`...)
	return dst, len(dst)
}

// closeDetails ends the object, or removes it if it is empty.
func closeDetails(dst []byte, from int, name string) []byte {
	if len(dst) == from {
		return dst[:from-len(name)-len(`,"":{`)]
	}
	return append(dropComma(dst, from), '}')
}
