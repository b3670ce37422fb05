package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
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
	fmt.Fprintf(w, "\nSluice %s serves %s/v1, ready after %s\n\n", versionText(), base, took.Round(time.Millisecond))

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
	authorization, note := credential(cfg, first)
	fmt.Fprintf(w, "\nTry it%s:\n\n  curl -N %s/v1/chat/completions%s \\\n    -H 'Content-Type: application/json' \\\n    -d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"stream\":true}'\n\n",
		note, base, authorization, first)
}

// targets names the targets of a model that are on.
func targets(cfg *config.Config, m *config.Model) []string {
	var names []string
	for _, t := range m.Targets {
		if p := cfg.Provider(t.Provider); p == nil || p.Off != "" {
			continue
		}
		names = append(names, named(&t))
	}
	return names
}

// named is a target as a person reads it.
func named(t *config.Target) string {
	name := t.Provider + "/" + t.Model
	if t.Fallback {
		name += " (fallback)"
	}
	return name
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

// credential is curl's option for a key that may use the model, and what to know about it. A secret is never printed, but
// for the one that everybody knows.
func credential(cfg *config.Config, model string) (option, note string) {
	if cfg.Server.Auth == config.AuthNone {
		return "", ""
	}
	const variable = ` -H "Authorization: Bearer $SLUICE_KEY"`
	theirs := sha256.Sum256([]byte(os.Getenv("SLUICE_KEY")))
	for i := range cfg.Keys {
		switch k := &cfg.Keys[i]; {
		case !usable(k, model):
		case string(k.Secret) == localKey:
			return " -H 'Authorization: Bearer " + localKey + "'", ""
		case k.Digest == theirs:
			return variable, ""
		}
	}
	return variable, ", with one of your keys in SLUICE_KEY"
}

func usable(k *config.Key, model string) bool {
	now := time.Now()
	return !k.Disabled && !now.Before(k.NotBefore) && (k.Expires.IsZero() || now.Before(k.Expires)) &&
		slices.ContainsFunc(k.Models, func(g config.Glob) bool { return g.Match(model) })
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
