package distribution

import (
	"errors"
	"strings"
)

// challenge is how a registry wants requests to be authorized.
type challenge struct {
	basic          bool   // send the credential itself, rather than a token
	realm          string // URL of the token service
	service, scope string
}

// parseChallenge parses a WWW-Authenticate header (RFC 9110, section 11.6.1), of which it takes one Basic or Bearer
// challenge.
func parseChallenge(header string) (challenge, error) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
	switch strings.ToLower(scheme) {
	case "basic":
		return challenge{basic: true}, nil
	case "bearer":
	default:
		return challenge{}, errors.New("the registry asks for a kind of credential that is neither Basic nor Bearer")
	}
	var c challenge
	for rest = strings.TrimSpace(rest); rest != ""; {
		name, after, found := strings.Cut(rest, "=")
		if !found {
			return challenge{}, errMalformed
		}
		value, after, ok := cutValue(after)
		if !ok {
			return challenge{}, errMalformed
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "realm":
			c.realm = value
		case "service":
			c.service = value
		case "scope":
			c.scope = value
		}
		after = strings.TrimSpace(after)
		if rest, found = strings.CutPrefix(after, ","); !found && after != "" {
			return challenge{}, errMalformed
		}
		rest = strings.TrimSpace(rest)
	}
	if c.realm == "" {
		return challenge{}, errMalformed
	}
	return c, nil
}

var errMalformed = errors.New("the registry's WWW-Authenticate header is malformed")

// cutValue cuts a token or a quoted string off the beginning of a text.
func cutValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, ", ")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], end > 0
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], true
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
