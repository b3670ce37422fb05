package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// localKey is the key of the gateway.toml that ships. It is public, so a command line may show it.
const localKey = "sk-local"

// banner tells a person what is being served, what is not and why, and what to type next.
func banner(w io.Writer, cfg *config.Config, at net.Addr, took time.Duration) {
	base := "http://" + reachable(at)
	fmt.Fprintf(w, "\nReady in %s at %s/v1\n\n", took.Round(time.Millisecond), base)

	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  MODEL\tTARGETS")
	first := ""
	for i := range cfg.Models {
		m := &cfg.Models[i]
		if m.Off != "" {
			continue
		}
		if first == "" {
			first = m.ID
		}
		fmt.Fprintf(t, "  %s\t%s\n", m.ID, strings.Join(targets(cfg, m), ", "))
	}
	for i := range cfg.Providers {
		if p := &cfg.Providers[i]; p.Off == "" && p.ListModels.Enabled {
			fmt.Fprintf(t, "  …\tand what %s lists\n", p.Name)
		}
	}
	// A start message that cannot be written is no reason not to start.
	_ = t.Flush()

	if off := offProviders(cfg); len(off) > 0 {
		fmt.Fprintln(w, "\n  Providers that are off:")
		for _, p := range off {
			fmt.Fprintf(w, "    %s: %s\n", p.Name, p.Off)
		}
	}
	if first == "" {
		fmt.Fprintln(w, "\n  No model can be used: see the providers that are off.")
		return
	}
	fmt.Fprintf(w, "\nTry it:\n\n  curl %s/v1/chat/completions%s \\\n    -H 'Content-Type: application/json' \\\n    -d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"stream\":true}'\n\n",
		base, authorization(cfg), first)
}

// targets names the targets of a model that are on.
func targets(cfg *config.Config, m *config.Model) []string {
	var names []string
	for _, t := range m.Targets {
		if p := cfg.Provider(t.Provider); p == nil || p.Off != "" {
			continue
		}
		name := t.Provider + "/" + t.Model
		if t.Fallback {
			name += " (fallback)"
		}
		names = append(names, name)
	}
	return names
}

func offProviders(cfg *config.Config) []*config.Provider {
	var off []*config.Provider
	for i := range cfg.Providers {
		if cfg.Providers[i].Off != "" {
			off = append(off, &cfg.Providers[i])
		}
	}
	return off
}

// authorization is curl's option for a key. A secret is never printed.
func authorization(cfg *config.Config) string {
	switch {
	case cfg.Server.Auth == config.AuthNone || len(cfg.Keys) == 0:
		return ""
	case string(cfg.Keys[0].Secret) == localKey:
		return " -H 'Authorization: Bearer " + localKey + "'"
	}
	return ` -H "Authorization: Bearer $SLUICE_KEY"`
}

// reachable is an address that a client on this machine can use.
func reachable(at net.Addr) string {
	host, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return at.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
