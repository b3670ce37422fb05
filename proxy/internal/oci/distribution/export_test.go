package distribution

import (
	"net/url"
	"time"
)

// SetPauses replaces the pauses before retries.
func SetPauses(c *Client, pauses ...time.Duration) { c.pauses = pauses }

// ParseChallenge parses a WWW-Authenticate header.
func ParseChallenge(header string) (basic bool, realm string, err error) {
	c, err := parseChallenge(header)
	return c.basic, c.realm, err
}

// ParseReceived parses a URL that a registry has sent.
func ParseReceived(r *Registry, base, text string) (*url.URL, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	return parseReceived(r, u, text)
}
