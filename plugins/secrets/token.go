package secrets

// Lengths in bytes, of tokens without their prefix.
const (
	awsID         = 16
	awsSecret     = 40
	googleKey     = 35
	githubToken   = 36
	githubFirst   = 22 // first part of a fine-grained token
	githubSecond  = 59
	checksum      = 6   // checksum at the end of a GitHub token
	slackToken    = 20  // minimum
	stripeKey     = 16  // minimum
	anthropicKey  = 24  // minimum
	openaiWindow  = 100 // maximum from the prefix to the end of openaiInfix
	plainKey      = 32  // minimum of a sequence of letters and digits in other keys with the prefix sk-
	maxJWTHeader  = 512
	minJWTPart    = 8
	maxSeparation = 8 // maximum between the name of a secret and its value
)

const openaiInfix = "T3BlbkFJ" // "OpenAI" in base64, which is part of all OpenAI keys

// token looks for a credential at i, in a run that ends at end. It is independent of the preceding bytes, because
// credentials have unique prefixes.
func (s *scanner) token(i, end int, trailing bool) (m span, v verdict) {
	text := s.text
	if i+1 >= end {
		return m, moreIf(trailing)
	}
	to := 0
	k := apiKey
	switch text[i] {
	case 'A':
		switch text[i+1] {
		case 'K', 'S':
			to, v = s.fixed(i, end, trailing, "KIA", "SIA", awsID)
		case 'I':
			to, v = s.fixed(i, end, trailing, "Iza", "", googleKey)
		}
	case 'e':
		if text[i+1] == 'y' {
			to, v = s.jsonWebToken(i, end, trailing)
			k = jwt
		}
	case 'g':
		if text[i+1] == 'h' || text[i+1] == 'i' {
			to, v = s.github(i, end, trailing)
		}
	case 's', 'r':
		switch text[i+1] {
		case 'k':
			to, v = s.secretKey(i, end, trailing)
		case 'e':
			if text[i] == 's' {
				return s.namedSecret(i)
			}
		}
	case 'S':
		if text[i+1] == 'e' || text[i+1] == 'E' {
			return s.namedSecret(i)
		}
	case 'x':
		if text[i+1] == 'o' || text[i+1] == 'a' {
			to, v = s.slack(i, end, trailing)
		}
	}
	if v != noMatch && s.find&(1<<k) == 0 {
		return m, noMatch
	}
	return span{i, to, k}, v
}

// startsToken reports whether the first bytes of a token of large or unlimited length are at i.
func (s *scanner) startsToken(i int) bool {
	switch s.text[i] {
	case 'e':
		return s.hasPrefix(i, "eyJ")
	case 's':
		return s.hasPrefix(i, "sk-") || s.hasPrefix(i, "sk_live_")
	case 'r':
		return s.hasPrefix(i, "rk_live_")
	case 'x':
		return s.hasPrefix(i, "xox") || s.hasPrefix(i, "xapp-")
	}
	return false
}

// moreIf returns the verdict at the end of a run: undecided if the run may continue after the text, otherwise no match.
func moreIf(trailing bool) verdict {
	if trailing {
		return more
	}
	return noMatch
}

// prefix decides whether the text at i begins with a prefix. It needs more if the text ends within the prefix.
func (s *scanner) prefix(i, end int, trailing bool, want string) verdict {
	n := min(end-i, len(want))
	if string(s.text[i:i+n]) != want[:n] {
		return noMatch
	}
	if n < len(want) {
		return moreIf(trailing)
	}
	return match
}

// matchOrOpen returns the verdict for a token of unlimited length that ends at to.
func matchOrOpen(to, end int, trailing bool) verdict {
	if to == end && trailing {
		return open
	}
	return match
}

// fixed looks for a token that consists of any byte, one of two prefixes, and n bytes of class token, or for an AWS ID,
// capital letters and digits.
func (s *scanner) fixed(i, end int, trailing bool, prefix, other string, n int) (to int, v verdict) {
	if v = s.prefix(i+1, end, trailing, prefix); v == noMatch && other != "" {
		v = s.prefix(i+1, end, trailing, other)
	}
	if v != match {
		return 0, v
	}
	body := i + 1 + len(prefix)
	to = body + n
	for j := body; j < min(to, end); j++ {
		if c := s.text[j]; class[c]&token == 0 || n == awsID && (class[c]&alnum == 0 || c >= 'a') {
			return 0, noMatch
		}
	}
	return to, s.endsToken(to, end, trailing)
}

// endsToken decides whether a token of fixed length may end at to, which requires that no letter, digit or _ follows.
func (s *scanner) endsToken(to, end int, trailing bool) verdict {
	switch {
	case to > end || to == end && trailing:
		return moreIf(trailing)
	case to < end && class[s.text[to]]&word != 0:
		return noMatch
	}
	return match
}

// github looks for a GitHub token. Classic tokens have a checksum, fine-grained ones a fixed structure.
func (s *scanner) github(i, end int, trailing bool) (to int, v verdict) {
	text := s.text
	if text[i+1] == 'i' {
		const begin = "github_pat_"
		if v := s.prefix(i, end, trailing, begin); v != match {
			return 0, v
		}
		body := i + len(begin)
		to = body + githubFirst + 1 + githubSecond
		for j := body; j < min(to, end); j++ {
			if j == body+githubFirst && text[j] != '_' || j != body+githubFirst && class[text[j]]&alnum == 0 {
				return 0, noMatch
			}
		}
		return to, s.endsToken(to, end, trailing)
	}
	const begin = len("ghp_")
	if i+begin > end {
		return 0, moreIf(trailing)
	}
	switch text[i+2] {
	case 'p', 'o', 'u', 's', 'r':
	default:
		return 0, noMatch
	}
	if text[i+3] != '_' {
		return 0, noMatch
	}
	body := i + begin
	to = body + githubToken
	for j := body; j < min(to, end); j++ {
		if class[text[j]]&alnum == 0 {
			return 0, noMatch
		}
	}
	if v = s.endsToken(to, end, trailing); v == match && !hasChecksum(text[body:to]) {
		return 0, noMatch
	}
	return to, v
}

// hasChecksum reports whether a token ends with the CRC-32 of its other bytes in base 62.
func hasChecksum(p []byte) bool {
	crc := ^uint32(0)
	for _, c := range p[:len(p)-checksum] {
		crc ^= uint32(c)
		for range 8 {
			crc = crc>>1 ^ -(crc&1)&0xedb88320
		}
	}
	crc = ^crc
	for i := len(p) - 1; i >= len(p)-checksum; i-- {
		const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		if p[i] != digits[crc%62] {
			return false
		}
		crc /= 62
	}
	return crc == 0
}

// secretKey looks for keys with the prefix sk- (Anthropic, OpenAI and compatible APIs), sk_live_ or rk_live_ (Stripe).
func (s *scanner) secretKey(i, end int, trailing bool) (to int, v verdict) {
	text := s.text
	if i+2 >= end {
		return 0, moreIf(trailing)
	}
	if text[i+2] == '_' {
		const begin = "k_live_"
		if v = s.prefix(i+1, end, trailing, begin); v != match {
			return 0, v
		}
		body := i + 1 + len(begin)
		for to = body; to < end && class[text[to]]&alnum != 0; to++ {
		}
		if to-body < stripeKey {
			if to == end {
				return 0, moreIf(trailing)
			}
			return 0, noMatch
		}
		return to, matchOrOpen(to, end, trailing)
	}
	if text[i] != 's' || text[i+2] != '-' {
		return 0, noMatch
	}
	const begin = len("sk-")
	to = s.tokenEnd(i)
	body := text[i+begin : to]
	if v := s.prefix(i+begin, to, trailing && to == end, "ant-"); v == match && len(body) >= anthropicKey {
		return to, matchOrOpen(to, end, trailing)
	}
	// Look for openaiInfix, or for a sequence of letters and digits that is long enough for a key and contains a digit.
	// Bytes that were examined for an earlier sk- without success need not be examined again.
	from := i + begin
	if s.keyTo <= from || s.keyTo > to {
		s.keyTo, s.keyFrom, s.keyDigit = from, from, -1
	}
	s.keyFrom = max(s.keyFrom, from)
	for ; s.keyTo < min(to, from+openaiWindow); s.keyTo++ {
		c := text[s.keyTo]
		if class[c]&alnum == 0 {
			s.keyFrom = s.keyTo + 1
			continue
		}
		if class[c]&digit != 0 {
			s.keyDigit = s.keyTo
		}
		if s.keyTo-s.keyFrom+1 >= plainKey && s.keyDigit >= s.keyFrom || c == openaiInfix[len(openaiInfix)-1] && endsWith(text[from:s.keyTo+1], openaiInfix) {
			return to, matchOrOpen(to, end, trailing)
		}
	}
	if to == end && len(body) < openaiWindow {
		return 0, moreIf(trailing)
	}
	return 0, noMatch
}

func endsWith(p []byte, suffix string) bool {
	return len(p) >= len(suffix) && string(p[len(p)-len(suffix):]) == suffix
}

// slack looks for a Slack token.
func (s *scanner) slack(i, end int, trailing bool) (to int, v verdict) {
	text := s.text
	begin := len("xoxb-")
	if text[i+1] == 'a' {
		if v = s.prefix(i, end, trailing, "xapp-"); v != match {
			return 0, v
		}
	} else {
		if v = s.prefix(i, end, trailing, "xox"); v != match {
			return 0, v
		}
		if i+begin > end {
			return 0, moreIf(trailing)
		}
		switch text[i+3] {
		case 'a', 'b', 'c', 'd', 'e', 'o', 'p', 'r', 's':
		default:
			return 0, noMatch
		}
		if text[i+4] != '-' {
			return 0, noMatch
		}
	}
	if i+begin >= end {
		return 0, moreIf(trailing)
	}
	if class[text[i+begin]]&digit == 0 {
		return 0, noMatch
	}
	to = s.tokenEnd(i)
	if to-i-begin < slackToken {
		if to == end {
			return 0, moreIf(trailing)
		}
		return 0, noMatch
	}
	return to, matchOrOpen(to, end, trailing)
}

// jsonWebToken looks for a JSON Web Token: two JSON objects in base64, separated by a dot, and optional further parts.
func (s *scanner) jsonWebToken(i, end int, trailing bool) (to int, v verdict) {
	const object = "eyJ"
	if v = s.prefix(i, end, trailing, object); v != match {
		return 0, v
	}
	dot := s.tokenEnd(i)
	if dot-i > maxJWTHeader || dot-i < minJWTPart && dot < end {
		return 0, noMatch
	}
	if dot == end {
		return 0, moreIf(trailing)
	}
	if s.text[dot] != '.' {
		return 0, noMatch
	}
	if v = s.prefix(dot+1, end, trailing, object); v != match {
		return 0, v
	}
	claims := dot + 1
	for to = claims; to < end && class[s.text[to]]&token != 0 && to-claims < minJWTPart; to++ {
	}
	if to-claims < minJWTPart {
		if to == end {
			return 0, moreIf(trailing)
		}
		return 0, noMatch
	}
	to, continues := s.jwtEnd(to)
	if continues {
		return to, open
	}
	return to, match
}

// jwtEnd returns the end of the JSON Web Token whose rest is at i, and whether it may continue after the text.
func (s *scanner) jwtEnd(i int) (to int, continues bool) {
	for i < len(s.text) {
		switch c := s.text[i]; {
		case class[c]&token != 0:
			i++
		case c == '.' && i+1 == len(s.text):
			return i, !s.complete
		case c == '.' && class[s.text[i+1]]&token != 0:
			i++
		default:
			return i, false
		}
	}
	return i, !s.complete
}

// namedSecret looks for an AWS secret access key. It has no prefix, but is recognized by its name before it.
func (s *scanner) namedSecret(i int) (m span, v verdict) {
	if s.find&(1<<apiKey) == 0 {
		return m, noMatch
	}
	text := s.text
	undecided := func() (span, verdict) {
		if s.complete {
			return span{}, noMatch
		}
		return span{}, more
	}
	at := i
	for n, part := range [...]string{"secret", "access", "key"} {
		if n > 0 && at < len(text) && (text[at] == '_' || text[at] == '-' || text[at] == ' ') {
			at++
		}
		matched, cut := s.equalFold(at, part)
		if cut {
			return undecided()
		}
		if !matched {
			if n == 1 {
				continue // aws_secret_key
			}
			return m, noMatch
		}
		at += len(part)
	}
	// Skip quotes, spaces and signs between name and value.
	begin := at
	for at < len(text) && at-begin < maxSeparation {
		switch text[at] {
		case ' ', '\t', '"', '\'', '`', ':', '=', '>', '|', '*', '\\':
			at++
			continue
		}
		break
	}
	if at == len(text) {
		return undecided()
	}
	if at == begin {
		return m, noMatch
	}
	to := at
	var has uint8
	for ; to < len(text) && to-at <= awsSecret; to++ {
		c := text[to]
		if class[c]&base64 == 0 || c == '=' {
			break
		}
		switch {
		case class[c]&digit != 0:
			has |= 1
		case c >= 'a':
			has |= 2
		case c >= 'A':
			has |= 4
		}
	}
	if to == len(text) && to-at <= awsSecret && !s.complete {
		return m, more
	}
	if to-at != awsSecret || has != 7 {
		return m, noMatch
	}
	return span{at, to, apiKey}, match
}

// equalFold reports whether the text at i is a word of lower-case letters, in any case. cut is true if the text ends
// within the word.
func (s *scanner) equalFold(i int, want string) (equal, cut bool) {
	for j := range len(want) {
		if i+j >= len(s.text) {
			return false, true
		}
		if s.text[i+j]|0x20 != want[j] {
			return false, false
		}
	}
	return true, false
}
