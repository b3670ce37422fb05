// Package configured makes of the configuration of providers what sends to them: clients with credentials, and what takes credentials out
// of texts.
//
// It owns what the members of a provider mean for packages upstream and credential, which know no configuration.
//
// Concurrency: functions only.
package configured

import (
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// Client returns the client of a provider that has an address. The redactor learns the credentials that it obtains.
func Client(p *config.Provider, redactor *credential.Redactor) (*upstream.Client, error) {
	return upstream.New(upstream.Config{
		Name:         p.Name,
		BaseURL:      p.BaseURL,
		Credential:   authorization(&p.Auth),
		Redactor:     redactor,
		MaxConns:     p.MaxConns,
		AllowPrivate: p.AllowPrivate,
		Timeouts: upstream.Timeouts{
			Connect: p.Timeout.Connect, TLS: p.Timeout.TLS, FirstByte: p.Timeout.FirstByte,
			Idle: p.Timeout.Idle, Total: p.Timeout.Total, Write: p.Timeout.Write,
		},
	})
}

// authorization is what a provider's requests are authorised with.
func authorization(a *config.Auth) credential.Credential {
	c := credential.Credential{Header: a.Header, Prefix: a.Prefix, Query: a.Query}
	for _, s := range a.Secrets {
		c.Secrets = append(c.Secrets, s.Reveal())
	}
	if a.AWS != nil {
		c.AWS = &credential.AWS{
			Region: a.AWS.Region, Service: a.AWS.Service, Profile: a.AWS.Profile, AccessKeyID: string(a.AWS.AccessKeyID),
			SecretAccessKey: string(a.AWS.SecretAccessKey), SessionToken: string(a.AWS.SessionToken),
		}
	}
	if a.Google != nil {
		c.Google = &credential.Google{File: a.Google.File, Metadata: a.Google.Metadata, Scopes: a.Google.Scopes}
	}
	return c
}

// Renew reads the files of a provider's credentials again. One that cannot be read stays as it is.
func Renew(client *upstream.Client, a *config.Auth) (changed bool, err error) {
	read, err := a.Reread()
	if err != nil {
		return false, err
	}
	secrets := make([]string, len(read))
	for i, secret := range read {
		secrets[i] = secret.Reveal()
	}
	return client.RenewSecrets(secrets)
}

// Redactor returns a redactor of every configured credential. Credentials that are obtained later are added to it.
func Redactor(cfg *config.Config) *credential.Redactor {
	var secrets []string
	for i := range cfg.Providers {
		a := &cfg.Providers[i].Auth
		for _, s := range a.Secrets {
			secrets = append(secrets, s.Reveal())
		}
		if a.AWS != nil {
			secrets = append(secrets, string(a.AWS.AccessKeyID), string(a.AWS.SecretAccessKey), string(a.AWS.SessionToken))
		}
	}
	for i := range cfg.Keys {
		secrets = append(secrets, string(cfg.Keys[i].Secret))
	}
	secrets = append(secrets, cfg.Store.Secrets()...)
	return credential.NewRedactor(secrets...)
}
