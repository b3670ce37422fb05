package main

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Event reads one event of a stream.
func (p *gemini) Event(a *provider.Answer, e *provider.Event) error {
	p.progress.begin(a)
	r := &p.reader
	r.Reset(e.Data)
	if err := p.read(a, r); err != nil {
		return err
	}
	if err := r.End(); err != nil {
		return err
	}
	return p.progress.keep()
}

// Response reads a whole answer, or an error. A stream that was asked for without alt=sse is a list of what would be its
// events, and so are the errors of some hosts.
func (p *gemini) Response(a *provider.Answer, status int, body []byte) error {
	if status >= 300 {
		return failure(errorOf(body), status)
	}
	p.progress.begin(a)
	r := &p.reader
	r.Reset(body)
	list := r.Kind() == json.Array
	if list {
		for l := r.Array(); l.Next(); {
			if err := p.read(a, r); err != nil {
				return err
			}
		}
	} else if err := p.read(a, r); err != nil {
		return err
	}
	if err := r.End(); err != nil {
		return err
	}
	if !list {
		// One document is all there is, whether or not it says why it ended.
		a.Done()
	}
	return p.progress.keep()
}

// read reads a chunk of an answer, or all of it.
func (p *gemini) read(a *provider.Answer, r *json.Reader) error {
	var (
		id, model      []byte
		feedback, used json.Value
		failed         json.Value
		some           bool
	)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "candidates":
			for l := r.Array(); l.Next(); {
				some = true
				p.candidate.read(r)
				if err := p.candidate.say(a, &p.progress); err != nil {
					return err
				}
			}
		case "usageMetadata":
			used = r.Raw()
		case "modelVersion":
			model = r.Text()
		case "responseId":
			id = r.Text()
		case "promptFeedback":
			feedback = r.Raw()
		case "error":
			failed = r.Raw()
		}
	}
	if failed.Kind() == json.Object {
		return failure(failed, 0)
	}
	if len(id) > 0 || len(model) > 0 {
		a.Start(fitting(id), fitting(model), format)
	}
	if used != nil {
		usage(a, used, p.progress.ending)
	}
	if !some && feedback != nil {
		refuse(a, feedback)
	}
	if p.progress.ending && p.progress.allFinished() {
		a.DoneAtEnd()
	}
	return nil
}

// refuse says that the provider refused to answer at all.
func refuse(a *provider.Answer, feedback json.Value) {
	reason := feedback.Get("blockReason").Text()
	if len(reason) == 0 {
		return
	}
	message := feedback.Get("blockReasonMessage").Inside()
	if len(message) == 0 {
		message = append([]byte("The provider blocked the prompt: "), feedback.Get("blockReason").Inside()...)
	}
	a.Refusal(0, abi.EncodingEscaped, message)
	a.Finish(0, abi.FinishContentFilter, fitting(reason))
	a.DoneAtEnd()
}

// maxCount bounds a count of tokens. What is above it is no count.
const maxCount = 1 << 40

// usage reads token counts. They are those of the answer so far, and the latest count. Thoughts are not part of the
// candidates' count, and what tools of the provider's own put into the prompt is not part of the prompt's; what the cache
// held is. last says that the counts are the answer's last, of which the parts are worth looking at.
func usage(a *provider.Answer, v json.Value, last bool) {
	var (
		r                        json.Reader
		prompt, tools            int64
		candidates, thoughts     int64
		prompted, answered       bool
		thought, cached          bool
		cache                    int64
		promptParts, answerParts json.Value
	)
	r.Reset(v)
	count := func() (int64, bool) {
		n, ok := r.Int()
		return n, ok && n >= 0 && n <= maxCount
	}
	add := func(n *int64, said *bool) {
		if m, ok := count(); ok {
			*n, *said = m, true
		}
	}
	var unused bool
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "promptTokenCount":
			add(&prompt, &prompted)
		case "toolUsePromptTokenCount":
			add(&tools, &unused)
		case "candidatesTokenCount":
			add(&candidates, &answered)
		case "thoughtsTokenCount":
			add(&thoughts, &thought)
		case "cachedContentTokenCount":
			add(&cache, &cached)
		case "promptTokensDetails":
			promptParts = r.Raw()
		case "candidatesTokensDetails":
			answerParts = r.Raw()
		}
	}
	if prompted {
		a.Usage(abi.UsagePrompt, prompt+tools)
	}
	// A count of zero is left out, so that beside a prompt's count no other is zero tokens.
	if prompted || answered || thought {
		a.Usage(abi.UsageCompletion, candidates+thoughts)
	}
	if thought {
		a.Usage(abi.UsageReasoning, thoughts)
	}
	if cached {
		a.Usage(abi.UsageCached, cache)
	}
	if last {
		sound(a, abi.UsageAudioIn, promptParts)
		sound(a, abi.UsageAudioOut, answerParts)
	}
}

// sound reads how many tokens of a count are sound.
func sound(a *provider.Answer, kind abi.UsageKind, parts json.Value) {
	var r json.Reader
	r.Reset(parts)
	for l := r.Array(); l.Next(); {
		one := json.Value(r.Raw())
		if n, ok := one.Get("tokenCount").Int(); ok && n >= 0 && n <= maxCount && one.Get("modality").Is("AUDIO") {
			a.Usage(kind, n)
		}
	}
}

// badAnswer is an answer that cannot be followed.
func badAnswer(text string) error { return sdk.Fail(abi.FailBadAnswer, text) }
