package secrets

// Maximum lengths in bytes.
const (
	maxDomain = 190
	maxDNS    = 63 // a label of a domain
	maxIPv6   = 45
)

// email looks for an email address whose local part ends at end, the end of the run that begins at from, where an @
// follows. It returns the range of the address.
func (s *scanner) email(from, end int) (at, to int, v verdict) {
	text := s.text
	at = max(from, end-maxRun)
	for at < end && class[text[at]]&word == 0 {
		at++
	}
	if at == end || text[end-1] == '.' {
		return at, 0, noMatch
	}
	label, letters, labels := end+1, true, 0
	for i := label; ; i++ {
		if i == len(text) && !s.complete {
			return at, 0, more
		}
		var c byte
		if i < len(text) {
			c = text[i]
		}
		if class[c]&alnum != 0 || c == '-' && i > label {
			letters = letters && class[c]&digit == 0 && c != '-'
			if i-label >= maxDNS || i-end > maxDomain {
				break
			}
			continue
		}
		if i == label || text[i-1] == '-' {
			break
		}
		if labels++; labels > 1 && letters && i-label > 1 {
			to = i
		}
		if c != '.' {
			break
		}
		label, letters = i+1, true
	}
	if to == 0 {
		return at, 0, noMatch
	}
	return at, to, match
}

// ipv4 looks for an IPv4 address.
func (s *scanner) ipv4(i int) (to int, v verdict) {
	text := s.text
	octets, value, digits := 1, 0, 0
	for ; ; i++ {
		if i == len(text) {
			if !s.complete {
				return 0, more
			}
			break
		}
		c := text[i]
		if class[c]&digit != 0 {
			value = 10*value + int(c-'0')
			if digits++; value > 255 || digits > 1 && value < 10 {
				return 0, noMatch
			}
			continue
		}
		if class[c]&word != 0 {
			return 0, noMatch
		}
		if c != '.' || octets == 4 || digits == 0 {
			break
		}
		octets++
		value, digits = 0, 0
	}
	if octets < 4 || digits == 0 {
		return 0, noMatch
	}
	if i < len(text) && text[i] == '.' {
		// A fifth number makes it a version instead of an address; a full stop does not.
		if i+1 == len(text) {
			if !s.complete {
				return 0, more
			}
		} else if class[text[i+1]]&word != 0 {
			return 0, noMatch
		}
	}
	return i, match
}

// ipv6 looks for an IPv6 address. It requires at least three groups, because a::b is also a name in some programming
// languages.
func (s *scanner) ipv6(i int) (to int, v verdict) {
	text := s.text
	from := i
	groups, digits, elided := 0, 0, false
	for ; ; i++ {
		if i == len(text) {
			if !s.complete {
				return 0, more
			}
			break
		}
		if i-from > maxIPv6 {
			return 0, noMatch
		}
		c := text[i]
		if class[c]&hex != 0 {
			if digits++; digits > 4 {
				return 0, noMatch
			}
			continue
		}
		if class[c]&word != 0 {
			return 0, noMatch
		}
		if c != ':' || digits == 0 && i > from {
			break
		}
		if i+1 == len(text) {
			if !s.complete {
				return 0, more
			}
			break
		}
		if digits > 0 {
			if groups++; groups == 8 && class[text[i+1]]&hex != 0 {
				return 0, noMatch
			}
		}
		switch next := text[i+1]; {
		case next == ':':
			if elided {
				return 0, noMatch
			}
			elided = true
			i++
		case class[next]&hex == 0:
			// The colon is punctuation after the address.
			return s.endsIPv6(i, groups, elided)
		}
		digits = 0
	}
	if digits > 0 {
		groups++
	}
	return s.endsIPv6(i, groups, elided)
}

// endsIPv6 decides whether the groups before to are a complete address.
func (s *scanner) endsIPv6(to, groups int, elided bool) (int, verdict) {
	if groups == 8 && !elided || groups >= 3 && groups < 8 && elided {
		return to, match
	}
	return 0, noMatch
}

// colon looks for an IPv6 address that begins with two colons. It returns the position to continue from.
func (s *scanner) colon(i int) int {
	if i+1 < len(s.text) && s.text[i+1] != ':' {
		return i + 1
	}
	switch to, v := s.ipv6(i); v {
	case match:
		return s.add(i, to, ipv6)
	case more:
		s.hold = i
		return len(s.text)
	}
	return i + 1
}
