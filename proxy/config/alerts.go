package config

import "strings"

// minAlertSecret is the minimum number of bytes of alerts.secret.
const minAlertSecret = 16

// Alerts is the table [alerts]: where alerts about budgets are posted.
type Alerts struct {
	URL    Secret // "" posts none; it may contain a credential, as the URLs of chat systems do
	CA     string // file with the certificates that verify the receiver's; "" for those of the system
	Secret Secret // signs alerts
}

// alerts reads [alerts].
func (l *loader) alerts(t table) {
	a := &l.cfg.Alerts
	url, at := l.secretKey(&t, "url")
	if at != nil && at.text != "" {
		if err := checkAlertURL(at.text); err != nil {
			t.fail(at, "url", "%v", err)
		}
		a.URL = url.Secret
	}
	a.CA = l.certificates(&t, a.URL.Reveal(), "url")
	secret, n := l.secretKey(&t, "secret")
	switch {
	case n == nil && a.URL != "" && !t.has("secret"):
		t.fail(nil, "secret", "is missing: without a signature, the receiver cannot know who has sent an alert")
	case n != nil && a.URL != "" && len(n.text) < minAlertSecret:
		t.fail(n, "secret", "has %d bytes; at least %d random ones are needed, such as those of `openssl rand -hex 32`", len(n.text), minAlertSecret)
	}
	a.Secret = secret.Secret
	if n := t.lookUp("url"); t.exists() && (n == nil || n.kind == kindString && n.text == "") {
		t.warn(n, "url", "is not set: no alerts are posted")
	}
	t.finish()
}

// checkAlertURL checks the URL of the webhook. Its errors do not contain it.
func checkAlertURL(text string) error {
	base, query, _ := strings.Cut(text, "?")
	if strings.HasSuffix(base, "/") {
		return invalid("must not end with /")
	}
	if _, err := checkBaseURL(base); err != nil {
		return err
	}
	if strings.ContainsAny(query, "# \\") {
		return invalid("is not a valid URL")
	}
	return nil
}
