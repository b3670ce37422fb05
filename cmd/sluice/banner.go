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

// localKey is the key of the default gateway.toml. It is public, so the banner may print it.
const localKey = "sk-local"

// printBanner shows what is served, what is off and why, and a command to try.
func printBanner(w io.Writer, cfg *config.Config, addr net.Addr, took time.Duration) {
	base := "http://" + dialAddress(addr)
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
		fmt.Fprintf(t, "  %s\t%s\n", m.ID, strings.Join(activeTargets(cfg, m), ", "))
	}
	for i := range cfg.Providers {
		if p := &cfg.Providers[i]; p.Off == "" && p.ListModels.Enabled {
			fmt.Fprintf(t, "  …\tand the models that %s lists\n", p.Name)
		}
	}
	// A banner that cannot be written must not keep the gateway from starting.
	_ = t.Flush()

	if off := offProviders(cfg); len(off) > 0 {
		fmt.Fprintln(w, "\n  Providers that are off:")
		for _, p := range off {
			fmt.Fprintf(w, "    %s: %s\n", p.Name, p.Off)
		}
	}
	if first == "" {
		fmt.Fprintln(w, "\n  No model is available, since all providers are off.")
		return
	}
	authorization, note := curlAuthorization(cfg, first)
	fmt.Fprintf(w, "\nTry it%s:\n\n  curl -N %s/v1/chat/completions%s \\\n    -H 'Content-Type: application/json' \\\n    -d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"stream\":true}'\n\n",
		note, base, authorization, first)
}

// activeTargets names a model's targets whose providers are on.
func activeTargets(cfg *config.Config, m *config.Model) []string {
	var names []string
	for _, t := range m.Targets {
		if p := cfg.Provider(t.Provider); p == nil || p.Off != "" {
			continue
		}
		names = append(names, targetName(&t))
	}
	return names
}

func targetName(t *config.Target) string {
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

// curlAuthorization returns curl's option for a key that may use the model, and a note about it. No secret is printed except
// localKey.
func curlAuthorization(cfg *config.Config, model string) (option, note string) {
	if cfg.Server.Auth == config.AuthNone {
		return "", ""
	}
	const fromEnvironment = ` -H "Authorization: Bearer $SLUICE_KEY"`
	environmentDigest := sha256.Sum256([]byte(os.Getenv("SLUICE_KEY")))
	for i := range cfg.Keys {
		switch k := &cfg.Keys[i]; {
		case !mayUse(k, model):
		case string(k.Secret) == localKey:
			return " -H 'Authorization: Bearer " + localKey + "'", ""
		case k.Digest == environmentDigest:
			return fromEnvironment, ""
		}
	}
	return fromEnvironment, ", with one of your keys in SLUICE_KEY"
}

func mayUse(k *config.Key, model string) bool {
	now := time.Now()
	return !k.Disabled && !now.Before(k.NotBefore) && (k.Expires.IsZero() || now.Before(k.Expires)) &&
		slices.ContainsFunc(k.Models, func(g config.Glob) bool { return g.Match(model) })
}

// dialAddress returns an address at which a client on this machine reaches a listener.
func dialAddress(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
