package secrets

import "bytes"

// span is a range of the text to replace.
type span struct {
	from, to int
	kind     kind
}

// verdict is what a matcher says of a position.
type verdict uint8

const (
	noMatch verdict = iota
	match
	more // the text ends before it is decided
	open // a match that reaches the end of the text, and may go on
)

// Classes of bytes.
const (
	word   = 1 << iota // letter, digit or _
	inRun              // word or one of .+-%
	digit              //
	alnum              // letter or digit
	token              // alnum or one of _-
	base64             // alnum or one of +/=
	hex                //
	marker             // the first byte of a token or of the keyword before one
)

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
	// maxRun is the length in bytes from which a run holds no numbers, and the longest local part of an address (RFC 5321).
	maxRun = 64

	// The number of bytes that are held of the rest of a long match, and up to slack more. All are larger than the longest text
	// that is held for want of a decision and begins with no token's first bytes.
	restToken  = 300
	restJWT    = 400
	restKey    = 500
	slack      = 64
	restMargin = 300 // bytes of a match that are always before its rest: more than what comes before the part that may repeat
)

const beginKey = "-----BEGIN "

// scanner finds matches in one piece of text. It is reused: found keeps its memory.
type scanner struct {
	find     uint32 // set of kinds
	text     []byte
	complete bool // nothing follows the text

	found []span // ascending, without overlaps; adjacent ones are possible
	hold  int    // the text from here on is held
	until int    // up to here the bytes from the position that a matcher last looked at are of class token

	// What secretKey has seen of these bytes, so that it looks at none twice.
	seen, stretch, digit int
}

// scan looks for matches in text, of which the first held bytes were held before.
func (s *scanner) scan(text []byte, held int, complete bool) {
	s.text, s.complete, s.found, s.hold, s.until = text, complete, s.found[:0], len(text), 0
	s.seen = 0
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

// run looks for the matches that begin in the run that begins at a position. It returns the position to go on from.
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

// firstInRun looks for the first match that begins in the run text[from:end]. If there is one it is added to found, and the position
// after it is returned; else the position from which to go on after the run.
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

// startsWord reports whether a number can begin at i of the run that begins at from: it continues neither a word nor a decimal, a
// version, or a word with hyphens.
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

// undecided holds the text from i on, or from so far before it that the run text[from:end] is known for what it is in the next call.
func (s *scanner) undecided(from, end, i int) (next int, found bool) {
	s.hold = max(from, min(i, end-maxRun-1))
	return len(s.text), true
}

// writeMask records the beginning of a match that begins at i and goes on after the text, and holds its rest. It returns false if
// the match is still short enough to be held as a whole.
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

// holdRest holds the last rest bytes, and records that what is before them is replaced.
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

// continueRest goes on in a match whose mask is written. It returns the position after the match.
func (s *scanner) continueRest(held int) int {
	rest, end, goesOn := restToken, 0, false
	switch {
	case held >= restKey:
		rest = restKey
		end, goesOn = s.keyBody(0, true)
	case held >= restJWT:
		rest = restJWT
		end, goesOn = s.jwtEnd(0)
	default:
		end = s.tokenEnd(0)
		goesOn = end == len(s.text) && !s.complete
	}
	if goesOn {
		s.holdRest(0, rest, none)
		return len(s.text)
	}
	if end > 0 {
		s.add(0, end, none)
	}
	return end
}

// tokenEnd returns the end of the bytes of class token from i on.
func (s *scanner) tokenEnd(i int) int {
	if i < s.until {
		return s.until
	}
	end := i
	for end < len(s.text) && class[s.text[end]]&token != 0 {
		end++
	}
	s.until = end
	return end
}

// hasPrefix reports whether the text at i begins with prefix.
func (s *scanner) hasPrefix(i int, prefix string) bool {
	return len(s.text)-i >= len(prefix) && string(s.text[i:i+len(prefix)]) == prefix
}

// startsKey reports whether the line that begins a key is at i.
func (s *scanner) startsKey(i int) bool { return s.text[i] == '-' && s.hasPrefix(i, beginKey) }

// isAllowed reports whether a match is one of the literals, or an address in one of the domains, which begin with an @.
func isAllowed(found []byte, k kind, allow [][]byte) bool {
	for _, a := range allow {
		if bytes.Equal(found, a) || k == email && a[0] == '@' && bytes.HasSuffix(found, a) {
			return true
		}
	}
	return false
}
