// Package configured creates upstream clients and credential redactors from the configuration of providers.
//
// It maps the keys of a provider's configuration to the packages upstream and credential, which do not depend on
// package config.
//
// Concurrency: all functions are safe for concurrent use.
package configured

import (
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// Client returns the client for a provider that has a base URL. The redactor learns the credentials that the client
// obtains.
func Client(p *config.Provider, redactor *credential.Redactor) (*upstream.Client, error) {
	return upstream.New(upstream.Config{
		Name:         p.Name,
		BaseURL:      p.BaseURL,
		Credential:   newCredential(&p.Auth),
		Redactor:     redactor,
		MaxConns:     p.MaxConns,
		AllowPrivate: p.AllowPrivate,
		Timeouts: upstream.Timeouts{
			Connect: p.Timeout.Connect, TLS: p.Timeout.TLS, FirstByte: p.Timeout.FirstByte,
			Idle: p.Timeout.Idle, Total: p.Timeout.Total, Write: p.Timeout.Write,
		},
	})
}

// newCredential returns the credential for requests to a provider.
func newCredential(a *config.Auth) credential.Credential {
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

// Renew reads the files of a provider's credentials again and reports whether a credential has changed. If a file
// cannot be read, all credentials stay as they are.
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

// Redactor returns a redactor for all configured credentials. Credentials that clients obtain later are added to it.
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
	for i := range cfg.Registries {
		secrets = append(secrets, cfg.Registries[i].Secret.Reveal())
	}
	secrets = append(append(secrets, cfg.Store.Secrets()...), string(cfg.Admin.Token))
	return credential.NewRedactor(secrets...)
}
