// Package glob matches text against patterns in which * stands for a run of any bytes.
//
// Concurrency: functions only.
package glob

// Match reports whether pattern covers the whole of text. Each * stands for at least least bytes. It does not allocate.
//
// Only the last star seen is backtracked to, which is enough: it can take whatever an earlier one would have.
func Match[T ~string | ~[]byte](pattern string, text T, least int) bool {
	p, t := 0, 0
	star, from := -1, 0 // the last star, and where the text after it starts
	for {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, t+least
			p, t = p+1, from
			if from > len(text) {
				return false
			}
			if p == len(pattern) {
				return true
			}
			continue
		case p == len(pattern) && t == len(text):
			return true
		case p < len(pattern) && t < len(text) && pattern[p] == text[t]:
			p, t = p+1, t+1
			continue
		case star < 0 || from == len(text):
			return false
		}
		from++
		p, t = star+1, from
	}
}
