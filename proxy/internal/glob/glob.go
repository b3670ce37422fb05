// Package glob matches text against patterns in which * matches any sequence of bytes.
//
// Concurrency: all functions are safe for concurrent use.
package glob

// Match reports whether pattern matches all of text. Each * matches at least minStar bytes. Match does not allocate.
//
// It backtracks only to the last star seen, which is sufficient: that star can match any bytes that an earlier one
// would have to.
func Match[T ~string | ~[]byte](pattern string, text T, minStar int) bool {
	p, t := 0, 0
	star, from := -1, 0 // index of the last star, and where the text after its match begins
	for {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, t+minStar
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
