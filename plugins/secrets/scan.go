package secrets

import "bytes"

// span is a match: a range of the text, and its kind.
type span struct {
	from, to int
	kind     kind
}

// verdict is a matcher's decision about a position.
type verdict uint8

const (
	noMatch verdict = iota
	match
	more // the text ends before a decision is possible
	open // a match that reaches the end of the text and may continue
)

// Classes of bytes.
const (
	word  = 1 << iota // letter, digit or _
	inRun             // word or one of .+-%
	digit
	alnum  // letter or digit
	token  // alnum or one of _-
	base64 // alnum or one of +/=
	hex
	marker // first byte of a token, or of the name of a secret
)

// class is the set of classes of each byte.
var class = func() (t [256]uint8) {
	set := func(chars string, bits uint8) {
		for i := range len(chars) {
			t[chars[i]] |= bits
		}
	}
	const digits, letters = "0123456789", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	set(digits, digit)
	set(digits+letters, word|inRun|alnum|token|base64)
	set("_", word|inRun|token)
	set("-", inRun|token)
	set(".+%", inRun)
	set("+/=", base64)
	set(digits+"abcdefABCDEF", hex)
	set("ASegrsx", marker)
	return t
}()

const (
	// maxRun is the length of the longest run that may contain numbers. It is also the maximum length of an email
	// address's local part (RFC 5321).
	maxRun = 64

	// The rest constants are the numbers of bytes, plus at most slack, that are held of a long match. They are larger
	// than any text that is held because it is undecided, unless that begins with the first bytes of a token.
	restToken  = 300
	restJWT    = 400
	restKey    = 500
	slack      = 64
	restMargin = 300 // minimum length of a match before its rest; more than its fixed part at the beginning
)

const beginKey = "-----BEGIN "

// scanner finds matches in one piece of text. It is reused, so that found keeps its memory.
type scanner struct {
	find     uint32 // set of kinds
	text     []byte
	complete bool // no more text follows

	found    []span // ascending and without overlaps, but possibly adjacent
	hold     int    // the text from here on is held
	tokenTo  int    // cached result of tokenEnd
	keyFrom  int    // secretKey: start of the current sequence of letters and digits
	keyDigit int    // secretKey: position of the last digit, -1 if there is none
	keyTo    int    // secretKey: end of the examined bytes, which are not examined again
}

// scan looks for matches in text. The first held bytes of it were held by the previous call.
func (s *scanner) scan(text []byte, held int, complete bool) {
	s.text, s.complete, s.found, s.hold, s.tokenTo, s.keyTo = text, complete, s.found[:0], len(text), 0, 0
	at := 0
	if held >= restToken && !s.startsToken(0) && !s.startsKey(0) {
		at = s.continueRest(held)
	}
	for at < len(text) {
		c := class[text[at]]
		switch {
		case c&inRun != 0:
			at = s.run(at)
		case text[at] == ':' && s.find&(1<<ipv6) != 0:
			at = s.colon(at)
		default:
			at++
		}
	}
}

// run looks for matches that begin in the run at from. It returns the position to continue from.
func (s *scanner) run(from int) int {
	if s.startsKey(from) {
		return s.key(from)
	}
	text := s.text
	end := from + 1
	for end < len(text) && class[text[end]]&inRun != 0 && !s.startsKey(end) {
		end++
	}
	trailing := end == len(text) && !s.complete
	for {
		if trailing && end-from <= maxRun {
			s.hold = from
			return len(text)
		}
		next, found := s.firstInRun(from, end, trailing)
		if !found {
			if trailing {
				s.hold = min(s.hold, end-maxRun-1)
			}
			return next
		}
		if next >= end {
			return next
		}
		from = next
	}
}

// firstInRun looks for the first match that begins in the run text[from:end], and records it. trailing is true if the
// run may continue after the text. It returns the position to continue from: the end of the match, or of the run if
// found is false. If a decision is impossible, it holds text and returns its end.
func (s *scanner) firstInRun(from, end int, trailing bool) (next int, found bool) {
	text := s.text
	long := end-from > maxRun
	address, addressEnd, addressVerdict := end, 0, noMatch
	if end < len(text) && text[end] == '@' && s.find&(1<<email) != 0 {
		address, addressEnd, addressVerdict = s.email(from, end)
	}
	for i := from; i < end; i++ {
		c := class[text[i]]
		if c&marker != 0 {
			if m, v := s.token(i, end, trailing); v != noMatch {
				switch {
				case v == match:
					return s.add(m.from, m.to, m.kind), true
				case v == open && s.writeMask(i, m.kind):
					return len(text), true
				}
				return s.undecided(from, end, i)
			}
		}
		if i == address && addressVerdict != noMatch {
			if addressVerdict == more {
				return s.undecided(from, end, i)
			}
			return s.add(i, addressEnd, email), true
		}
		if long || c&alnum == 0 && text[i] != '+' || !startsWord(text, from, i) {
			continue
		}
		if m, v := s.number(i); v == match {
			return s.add(m.from, m.to, m.kind), true
		} else if v == more {
			return s.undecided(from, end, i)
		}
	}
	return end, false
}

// startsWord reports whether a number can begin at i in the run that begins at from. It cannot if it would continue a
// word, a decimal number, a version, or a hyphenated word.
func startsWord(text []byte, from, i int) bool {
	if i == from {
		return true
	}
	if class[text[i-1]]&word != 0 {
		return false
	}
	return i-2 < from || class[text[i-2]]&word == 0
}

// add records a match and returns its end.
func (s *scanner) add(from, to int, k kind) int {
	s.found = append(s.found, span{from, to, k})
	return to
}

// undecided holds the text from i on, and as many bytes before it as the next call needs to recognize a long run.
func (s *scanner) undecided(from, end, i int) (next int, found bool) {
	s.hold = max(from, min(i, end-maxRun-1))
	return len(s.text), true
}

// writeMask records a match that begins at i and continues after the text, and holds its last bytes. It returns false
// if the match is still short enough to be held completely.
func (s *scanner) writeMask(i int, k kind) bool {
	rest := restToken
	switch k {
	case jwt:
		rest = restJWT
	case privateKey:
		rest = restKey
	}
	if len(s.text)-i < rest+slack+restMargin {
		return false
	}
	s.holdRest(i, rest, k)
	return true
}

// holdRest holds the last rest bytes of the text, and records a match of the bytes between from and them.
func (s *scanner) holdRest(from, rest int, k kind) {
	at := len(s.text) - rest
	for s.startsToken(at) {
		at--
	}
	s.hold = at
	if at > from {
		s.add(from, at, k)
	}
}

// continueRest continues a match whose mask has been written. It returns the end of the match.
func (s *scanner) continueRest(held int) int {
	rest, end, continues := restToken, 0, false
	switch {
	case held >= restKey:
		rest = restKey
		end, continues = s.keyBody(0, true)
	case held >= restJWT:
		rest = restJWT
		end, continues = s.jwtEnd(0)
	default:
		end = s.tokenEnd(0)
		continues = end == len(s.text) && !s.complete
	}
	if continues {
		s.holdRest(0, rest, none)
		return len(s.text)
	}
	if end > 0 {
		s.add(0, end, none)
	}
	return end
}

// tokenEnd returns the end of the sequence of bytes of class token at i. i must not decrease from one call to the next.
func (s *scanner) tokenEnd(i int) int {
	if i < s.tokenTo {
		return s.tokenTo
	}
	end := i
	for end < len(s.text) && class[s.text[end]]&token != 0 {
		end++
	}
	s.tokenTo = end
	return end
}

// hasPrefix reports whether the text at i begins with prefix.
func (s *scanner) hasPrefix(i int, prefix string) bool {
	return len(s.text)-i >= len(prefix) && string(s.text[i:i+len(prefix)]) == prefix
}

// startsKey reports whether a begin line of PEM starts at i.
func (s *scanner) startsKey(i int) bool { return s.text[i] == '-' && s.hasPrefix(i, beginKey) }

// isAllowed reports whether a match is an entry of allow, or an email address in a domain of allow, which begins with
// an @.
func isAllowed(found []byte, k kind, allow [][]byte) bool {
	for _, a := range allow {
		if bytes.Equal(found, a) || k == email && a[0] == '@' && bytes.HasSuffix(found, a) {
			return true
		}
	}
	return false
}
