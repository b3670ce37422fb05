package secrets

// number looks for a match that begins at i, the start of a word: a number, an IBAN or an IPv6 address.
func (s *scanner) number(i int) (m span, v verdict) {
	text, find := s.text, s.find
	c := text[i]
	switch {
	case c == '+':
		if find&(1<<phone) != 0 {
			return s.phone(i)
		}
		return m, noMatch
	case class[c]&digit != 0:
		// At most one of the matchers matches, and more text does not change a decision.
		needsMore := false
		for k, matcher := range digitMatchers {
			if matcher == nil || find&(1<<k) == 0 {
				continue
			}
			to, v := matcher(s, i)
			if v == match {
				return span{i, to, kind(k)}, match
			}
			needsMore = needsMore || v == more
		}
		if needsMore {
			return m, more
		}
	case c >= 'A' && c <= 'Z':
		if find&(1<<iban) != 0 {
			if to, v := s.iban(i); v != noMatch {
				return span{i, to, iban}, v
			}
		}
	}
	if class[c]&hex != 0 && find&(1<<ipv6) != 0 {
		to, v := s.ipv6(i)
		return span{i, to, ipv6}, v
	}
	return m, noMatch
}

// digitMatchers look for matches that begin with a digit. They exclude each other.
var digitMatchers = [kinds]func(s *scanner, i int) (to int, v verdict){card: (*scanner).card, ssn: (*scanner).ssn, ipv4: (*scanner).ipv4}

// endsWord decides whether a number may end before i, which requires that no letter, digit or _ follows.
func (s *scanner) endsWord(i int) verdict {
	switch {
	case i < len(s.text):
		if class[s.text[i]]&word != 0 {
			return noMatch
		}
		return match
	case s.complete:
		return match
	}
	return more
}

// issuers are ranges of the first digits of card numbers: the bounds, how many digits these have, and the minimum and
// maximum length of the card number.
var issuers = [...]struct{ from, to, digits, shortest, longest int }{
	{4, 4, 1, 13, 19},            // Visa
	{51, 55, 2, 16, 16},          // Mastercard
	{2221, 2720, 4, 16, 16},      // Mastercard
	{34, 34, 2, 15, 15},          // American Express
	{37, 37, 2, 15, 15},          // American Express
	{6011, 6011, 4, 16, 19},      // Discover
	{644, 659, 3, 16, 19},        // Discover
	{300, 305, 3, 14, 19},        // Diners Club
	{3095, 3095, 4, 14, 19},      // Diners Club
	{36, 36, 2, 14, 19},          // Diners Club
	{38, 39, 2, 14, 19},          // Diners Club
	{3528, 3589, 4, 16, 19},      // JCB
	{62, 62, 2, 16, 19},          // UnionPay
	{81, 82, 2, 16, 19},          // UnionPay, RuPay
	{60, 60, 2, 16, 16},          // RuPay
	{508, 508, 3, 16, 16},        // RuPay
	{2200, 2204, 4, 16, 19},      // Mir
	{9792, 9792, 4, 16, 16},      // Troy
	{5018, 5018, 4, minCard, 19}, // Maestro
	{5020, 5020, 4, minCard, 19}, // Maestro
	{5038, 5038, 4, minCard, 19}, // Maestro
	{5893, 5893, 4, minCard, 19}, // Maestro
	{6304, 6304, 4, minCard, 19}, // Maestro
	{6759, 6763, 4, minCard, 19}, // Maestro
}

const (
	minCard = 12
	maxCard = 19

	// In a card number with spaces or hyphens the first group has four digits, the others from three to seven.
	firstGroup = 4
	minGroup   = 3
	maxGroup   = 7
)

// card looks for a card number with a known issuer, its length, and a valid Luhn check digit. It may be written in
// groups.
func (s *scanner) card(i int) (to int, v verdict) {
	text := s.text
	var digits [maxCard]byte
	n, group, groups, sep := 0, 0, 1, byte(0)
	best := 0
	for ; ; i++ {
		if i == len(text) {
			if !s.complete {
				return 0, more
			}
			if group >= minGroup && groups != 2 && isCard(digits[:n]) {
				best = i
			}
			break
		}
		c := text[i]
		if class[c]&digit != 0 {
			if n == maxCard || sep != 0 && group == maxGroup {
				break
			}
			digits[n] = c - '0'
			n++
			group++
			continue
		}
		if class[c]&word != 0 || group < minGroup {
			break
		}
		if groups != 2 && isCard(digits[:n]) {
			best = i
		}
		if c != ' ' && c != '-' || sep != 0 && c != sep || groups == 1 && group != firstGroup {
			break
		}
		sep, group = c, 0
		groups++
	}
	if best > 0 {
		return best, match
	}
	return 0, noMatch
}

// isCard reports whether the issuer, length and check digit are valid.
func isCard(digits []byte) bool {
	if len(digits) < minCard || !hasIssuer(digits) {
		return false
	}
	sum, double := 0, false
	for i := len(digits) - 1; i >= 0; i-- {
		d := int(digits[i])
		if double {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		double = !double
	}
	return sum%10 == 0
}

func hasIssuer(digits []byte) bool {
	for i := range issuers {
		r := &issuers[i]
		first := 0
		for _, d := range digits[:r.digits] {
			first = 10*first + int(d)
		}
		if first >= r.from && first <= r.to && len(digits) >= r.shortest && len(digits) <= r.longest {
			return true
		}
	}
	return false
}

// ssn looks for a US social security number with hyphens, in an assigned range.
func (s *scanner) ssn(i int) (to int, v verdict) {
	const shape = "ddd-dd-dddd"
	text := s.text
	for j := range len(shape) {
		if i+j == len(text) {
			if s.complete {
				return 0, noMatch
			}
			return 0, more
		}
		c := text[i+j]
		if shape[j] == 'd' && class[c]&digit == 0 || shape[j] == '-' && c != '-' {
			return 0, noMatch
		}
	}
	area := string(text[i : i+3])
	if area == "000" || area == "666" || area[0] == '9' || string(text[i+4:i+6]) == "00" || string(text[i+7:i+11]) == "0000" {
		return 0, noMatch
	}
	to = i + len(shape)
	if to < len(text) && text[to] == '-' {
		return 0, noMatch
	}
	return to, s.endsWord(to)
}

const (
	minPhone      = 8
	maxPhone      = 15 // E.164
	maxSeparators = 2
)

// phone looks for an international phone number (E.164), which begins with a + and may contain separators.
func (s *scanner) phone(plus int) (m span, v verdict) {
	text := s.text
	digits, seps, best := 0, 0, 0
	i := plus + 1
scan:
	for ; ; i++ {
		if i == len(text) {
			if !s.complete {
				return m, more
			}
			if seps == 0 && digits >= minPhone {
				best = i
			}
			break
		}
		c := text[i]
		switch {
		case class[c]&digit != 0:
			if digits == maxPhone || digits == 0 && (c == '0' || seps > 0) {
				break scan
			}
			digits++
			seps = 0
		case class[c]&word != 0:
			break scan
		default:
			if seps == 0 && digits >= minPhone {
				best = i
			}
			if c != ' ' && c != '-' && c != '.' && c != '(' && c != ')' && c != '/' || seps == maxSeparators {
				break scan
			}
			seps++
		}
	}
	if best > 0 {
		return span{plus, best, phone}, match
	}
	return m, noMatch
}

// countries are the country codes of IBANs, each followed by the length of its IBANs.
const countries = "AD24AE23AL28AT20AZ28BA20BE16BG22BH22BI27BR29BY28CH21CR22CY28CZ24DE22DJ27DK18DO28EE20EG29ES24FI18FK18FO18FR27GB22GE22GI23" +
	"GL18GR27GT28HN28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21LY25MC27MD24ME22MK19MN20MR27MT31MU30NI28" +
	"NL18NO15OM23PK24PL28PS29PT25QA29RO24RS22RU33SA24SC31SD18SE24SI19SK24SM27SO23ST25SV28TL23TN24TR26UA29VA22VG24XK20YE30"

// iban looks for an IBAN with a known country, its length, and valid check digits (modulo 97). It may be written in
// groups of four.
func (s *scanner) iban(i int) (to int, v verdict) {
	text := s.text
	if i+1 < len(text) && (text[i+1] < 'A' || text[i+1] > 'Z') || i+2 < len(text) && class[text[i+2]]&digit == 0 {
		return 0, noMatch
	}
	if i+2 >= len(text) {
		if s.complete {
			return 0, noMatch
		}
		return 0, more
	}
	length := 0
	for c := 0; c < len(countries); c += 4 {
		if countries[c] == text[i] && countries[c+1] == text[i+1] {
			length = int(countries[c+2]-'0')*10 + int(countries[c+3]-'0')
			break
		}
	}
	// For the checksum, the first four characters move to the end.
	rest, first, n := 0, 0, 0
	sep := byte(0)
	for ; n < length; i++ {
		if i == len(text) {
			if s.complete {
				return 0, noMatch
			}
			return 0, more
		}
		c := text[i]
		if n%4 == 0 && n > 0 && (c == ' ' || c == '-') && (n == 4 && sep == 0 || c == sep) {
			sep = c
			if i++; i == len(text) {
				if s.complete {
					return 0, noMatch
				}
				return 0, more
			}
			c = text[i]
		} else if n%4 == 0 && n > 4 && sep != 0 {
			return 0, noMatch
		}
		digits, value := 10, int(c)-'0'
		switch {
		case class[c]&digit != 0:
		case c >= 'A' && c <= 'Z' && (n < 2 || n > 3):
			digits, value = 100, int(c)-'A'+10
		default:
			return 0, noMatch
		}
		if n < 4 {
			first = first*digits + value
		} else {
			rest = (rest*digits + value) % 97
		}
		n++
	}
	if length == 0 || (rest*1_000_000+first)%97 != 1 {
		return 0, noMatch
	}
	return i, s.endsWord(i)
}
