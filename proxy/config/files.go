package config

import "slices"

// Files returns the files that the configuration depends on: its own file, included files and the folders that are
// searched for them, certificates, credentials, and the plugins in use. Their contents may change while the Config
// stays the same.
func (c *Config) Files() []string {
	files := []string{c.Path}
	add := func(name string) {
		if name != "" && !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	for _, name := range slices.Concat(c.Included, c.Folders) {
		add(name)
	}
	if t := c.Server.TLS; t != nil {
		add(t.CertFile)
		add(t.KeyFile)
		add(t.ClientCA)
		add(t.ClientCRL)
	}
	for i := range c.Plugins {
		if p := &c.Plugins[i]; p.InUse && p.Reference.Registry == "" {
			add(p.File)
		}
	}
	for i := range c.Providers {
		a := &c.Providers[i].Auth
		for _, s := range a.Secrets {
			add(s.File)
		}
		if a.AWS != nil {
			for _, file := range a.AWS.Files {
				add(file)
			}
		}
		if a.Google != nil {
			add(a.Google.File)
		}
	}
	for i := range c.Registries {
		add(c.Registries[i].CA)
		add(c.Registries[i].Secret.File)
	}
	if c.Bundle != nil {
		for i := range c.Bundle.Secrets {
			add(c.Bundle.Secrets[i].File)
		}
	}
	for i := range c.Keys {
		add(c.Keys[i].File)
	}
	for i := range c.Issuers {
		add(c.Issuers[i].File)
	}
	return files
}
