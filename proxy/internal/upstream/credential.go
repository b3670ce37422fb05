package upstream

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// Credential is what a provider knows the gateway by: a header with Prefix and Secret as its value, a member of the
// query, the signature of AWS, or a token of Google. It is one of them, or none. None of its texts shows a secret.
type Credential struct {
	Header string // "Authorization", "x-api-key"; "" is no header
	Prefix string // "Bearer "
	Query  string // the query member that carries the secret instead of a header
	Secret string
	AWS    *AWS
	Google *Google
}

// String says where the credential goes and never what it is.
func (c Credential) String() string {
	switch {
	case c.AWS != nil:
		return c.AWS.String()
	case c.Google != nil:
		return c.Google.String()
	case c.Secret == "":
		return "no credential"
	case c.Query != "":
		return "query " + c.Query + "=" + redacted
	}
	return c.Header + ": " + c.Prefix + redacted
}

// Format is String for every verb: under one that does not fit a string, fmt would print the parts.
func (c Credential) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// MarshalText is String.
func (c Credential) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// LogValue is String.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// secrets are those that are known before anything is obtained.
func (c Credential) secrets() []string {
	all := []string{c.Secret}
	if c.AWS != nil {
		all = append(all, c.AWS.AccessKeyID, c.AWS.SecretAccessKey, c.AWS.SessionToken)
	}
	return all
}

// parseCredential checks the credential and prepares what of it is the same for all requests.
func (c *Client) parseCredential() error {
	k := &c.cfg.Credential
	kinds := 0
	for _, there := range []bool{k.Secret != "", k.AWS != nil, k.Google != nil} {
		if there {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return nil
	case kinds > 1:
		return errors.New("there is more than one credential")
	case k.AWS != nil:
		s, err := newAWS(*k.AWS, &c.cfg)
		c.signer = s
		return err
	case k.Google != nil:
		c.signer = newGoogle(*k.Google, &c.cfg)
		return nil
	case (k.Header == "") == (k.Query == ""):
		return errors.New("the credential needs a header or a query member, and not both")
	case k.Header != "" && (!httpfield.ValidName(k.Header) || !httpfield.ValidValue(k.Prefix) || !httpfield.ValidValue(k.Secret)):
		return errors.New("the credential cannot be sent in a header")
	case k.Query != "":
		c.credentialQuery = url.QueryEscape(k.Query) + "=" + url.QueryEscape(k.Secret)
	default:
		c.credentialHeader = k.Prefix + k.Secret
	}
	return nil
}
