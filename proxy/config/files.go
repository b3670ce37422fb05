package config

import "slices"

// Files are the files that the configuration was made of and those that whoever serves it reads: its own, certificates,
// credentials, and the modules of plugins that are in use. What is in them may change while the Config stays the same.
func (c *Config) Files() []string {
	files := []string{c.Path}
	add := func(name string) {
		if name != "" && !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	if t := c.Server.TLS; t != nil {
		add(t.CertFile)
		add(t.KeyFile)
	}
	for i := range c.Plugins {
		if p := &c.Plugins[i]; p.InUse {
			add(p.File)
		}
	}
	for i := range c.Providers {
		if g := c.Providers[i].Auth.Google; g != nil {
			add(g.File)
		}
	}
	return files
}
