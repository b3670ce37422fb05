package cost

// Tokens are the tokens of one response, each counted once in Prompt or Completion. All other counts are parts of these two.
type Tokens struct {
	Prompt     int64 // all of the prompt, cached or not
	Completion int64 // all of the completion, with its reasoning

	// Parts of Prompt and of Completion; 0 where the provider did not count them.
	Cached, CacheWrite, AudioIn int64 // Cached: read from a cache; CacheWrite: written to one
	Reasoning, AudioOut         int64

	CacheWrite1h int64 // part of CacheWrite: written for an hour
}

// Total returns the tokens of prompt and completion.
func (t *Tokens) Total() int64 { return t.Prompt + t.Completion }

// split returns the tokens by the kind of price that they cost. No token counts twice, also where parts are more than their whole:
// the kinds that come first here keep their counts.
func (t *Tokens) split() (n [Kinds]int64) {
	take := func(from *int64, part int64) int64 {
		part = min(max(part, 0), *from)
		*from -= part
		return part
	}
	prompt, completion := max(t.Prompt, 0), max(t.Completion, 0)
	n[CacheWrite] = take(&prompt, t.CacheWrite)
	n[CacheWrite1h] = take(&n[CacheWrite], t.CacheWrite1h)
	n[CachedInput] = take(&prompt, t.Cached)
	n[AudioInput] = take(&prompt, t.AudioIn)
	n[Input] = prompt
	n[AudioOutput] = take(&completion, t.AudioOut)
	n[Reasoning] = take(&completion, t.Reasoning)
	n[Output] = completion
	return n
}
