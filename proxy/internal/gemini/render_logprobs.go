package gemini

import "github.com/sluice-gateway/sluice/proxy/internal/jsondoc"

// logprobs holds the log probabilities of a candidate's tokens that have not been written, as the elements of two JSON
// arrays of the same length.
type logprobs struct {
	hasTokens   bool
	chosen, top []byte
}

func (l *logprobs) reset() logprobs { return logprobs{chosen: l.chosen[:0], top: l.top[:0]} }

// clear drops the log probabilities after they have been written, and returns their size in bytes.
func (l *logprobs) clear() int {
	n := len(l.chosen) + len(l.top)
	*l = l.reset()
	return n
}

// add adds log probabilities in the chat completions format. It returns how many bytes it keeps in memory for them.
func (l *logprobs) add(doc *jsondoc.Doc, value []byte) int {
	defer doc.Reset()
	if doc.Parse(value, looseLimits) != nil {
		return 0
	}
	before := len(l.chosen) + len(l.top)
	for v := doc.Root().Get("content").First(); v.Exists(); v = v.Next() {
		if l.hasTokens {
			l.chosen, l.top = append(l.chosen, ','), append(l.top, ',')
		}
		l.hasTokens = true
		l.chosen = appendToken(l.chosen, v)
		l.top = append(l.top, `{"candidates":[`...)
		first := true
		for t := v.Get("top_logprobs").First(); t.Exists(); t = t.Next() {
			if !first {
				l.top = append(l.top, ',')
			}
			first = false
			l.top = appendToken(l.top, t)
		}
		l.top = append(l.top, "]}"...)
	}
	return len(l.chosen) + len(l.top) - before
}

func appendToken(dst []byte, v jsondoc.Value) []byte {
	dst = append(append(dst, `{"token":"`...), v.Get("token").Inside()...)
	dst = append(dst, `","logProbability":`...)
	if p := v.Get("logprob"); p.Kind() == jsondoc.Number {
		return append(append(dst, p.Raw()...), '}')
	}
	return append(dst, "0}"...)
}

// appendTo appends the candidate's member logprobsResult.
func (l *logprobs) appendTo(dst []byte) []byte {
	dst = append(append(dst, `,"logprobsResult":{"chosenCandidates":[`...), l.chosen...)
	dst = append(append(dst, `],"topCandidates":[`...), l.top...)
	return append(dst, "]}"...)
}
