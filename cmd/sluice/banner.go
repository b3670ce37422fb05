package main

import (
	"bytes"
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

// maxBannerModels is how many models the banner lists.
const maxBannerModels = 40

// printBanner shows what is served, what is off and why, and a command to try. It writes the banner with one call, so
// that no log line lands in the middle of it.
func printBanner(out io.Writer, cfg *config.Config, addr net.Addr, admin net.Listener, took time.Duration) {
	w := new(bytes.Buffer)
	base := "http://" + dialAddress(addr)
	fmt.Fprintf(w, "\nSluice %s serves %s/v1, ready after %s\n\n", versionText(), base, took.Round(time.Millisecond))
	first := printModels(w, cfg)
	lists := slices.ContainsFunc(cfg.Providers, listsModels)
	off := offProviders(cfg)
	if len(off) > 0 {
		fmt.Fprintln(w, "\n  Providers that are off:")
		for _, p := range off {
			fmt.Fprintf(w, "    %s: %s\n", p.Name, p.Off)
		}
	}
	authorization, note := curlAuthorization(cfg, first)
	switch {
	case first != "":
		fmt.Fprintf(w, "\nTry it%s:\n\n%s", note, curlCompletion(base, authorization, first))
	case lists:
		fmt.Fprintf(w, "\nList the models, and try one%s:\n\n  curl %s/v1/models%s\n\n%s", note, base, authorization, curlCompletion(base, authorization, "MODEL"))
	case len(off) == len(cfg.Providers):
		fmt.Fprintln(w, "\n  No model is available, since all providers are off.")
	default:
		fmt.Fprintln(w, "\n  No model is available: none is configured for the providers that are on, and they list none.")
	}
	if admin != nil {
		fmt.Fprintf(w, "\nHealth, metrics and status: http://%s/\n", dialAddress(admin.Addr()))
	}
	fmt.Fprintln(w)
	// A banner that cannot be written must not keep the gateway from starting.
	_, _ = out.Write(w.Bytes())
}

// printModels lists the models that are on, and returns the ID of the first, or "" if none is on.
func printModels(w io.Writer, cfg *config.Config) (first string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  MODEL\tTARGETS")
	on := 0
	for i := range cfg.Models {
		m := &cfg.Models[i]
		if m.Off != "" {
			continue
		}
		if on++; on == 1 {
			first = m.ID
		}
		if on <= maxBannerModels {
			fmt.Fprintf(t, "  %s\t%s\n", m.ID, strings.Join(activeTargets(cfg, m), ", "))
		}
	}
	if more := on - maxBannerModels; more > 0 {
		fmt.Fprintf(t, "  …\tand %d more; `sluice models` lists them\n", more)
	}
	and := "and "
	if on == 0 {
		and = ""
	}
	for i := range cfg.Providers {
		if p := &cfg.Providers[i]; listsModels(*p) {
			fmt.Fprintf(t, "  …\t%sthe models that %s lists\n", and, p.Name)
		}
	}
	_ = t.Flush()
	return first
}

func listsModels(p config.Provider) bool { return p.Off == "" && p.ListModels.Enabled }

func curlCompletion(base, authorization, model string) string {
	return fmt.Sprintf("  curl -N %s/v1/chat/completions%s \\\n    -H 'Content-Type: application/json' \\\n    -d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"stream\":true}'\n", base, authorization, model)
}

// servingStatus returns the status line for the service manager.
func servingStatus(cfg *config.Config, addr net.Addr) string {
	models := 0
	for i := range cfg.Models {
		if cfg.Models[i].Off == "" {
			models++
		}
	}
	return fmt.Sprintf("serving %s at %s", plural(models, "configured model"), addr)
}

// activeTargets returns the names of a model's targets whose providers are on.
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

// curlAuthorization returns curl's option with a key that may use the model ("" for any model), and a note about the
// key. No secret is printed except config.ShippedKey, which is public.
func curlAuthorization(cfg *config.Config, model string) (option, note string) {
	if cfg.Server.Auth == config.AuthNone {
		return "", ""
	}
	const fromEnvironment = ` -H "Authorization: Bearer $SLUICE_KEY"`
	environmentDigest := sha256.Sum256([]byte(os.Getenv("SLUICE_KEY")))
	for i := range cfg.Keys {
		switch k := &cfg.Keys[i]; {
		case !mayUse(k, model):
		case string(k.Secret) == config.ShippedKey:
			return " -H 'Authorization: Bearer " + config.ShippedKey + "'", ""
		case slices.Contains(k.AllDigests(), environmentDigest):
			return fromEnvironment, ""
		}
	}
	return fromEnvironment, ", with one of your keys in SLUICE_KEY"
}

func mayUse(k *config.Key, model string) bool {
	now := time.Now()
	return !k.Disabled && !now.Before(k.NotBefore) && (k.Expires.IsZero() || now.Before(k.Expires)) &&
		(model == "" || slices.ContainsFunc(k.Models, func(g config.Glob) bool { return g.Match(model) }))
}

// dialAddress returns the address at which a client on this machine reaches a listener.
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
