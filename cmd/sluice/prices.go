package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// pricesReport is the output of `sluice prices --format json`.
type pricesReport struct {
	BuiltIn struct {
		Source string `json:"source"`
		Commit string `json:"commit"`
		Date   string `json:"date"`
	} `json:"built_in"`
	File   string        `json:"file,omitempty"`
	Models []modelPrices `json:"models"`
}

// modelPrices are the prices of one target of a model.
type modelPrices struct {
	Model    string       `json:"model"`
	Provider string       `json:"provider"`
	Target   string       `json:"target"`
	Source   string       `json:"source"`
	Pricing  fmt.Stringer `json:"pricing"` // nil if the target has no price
}

func newPricesCommand(o *options) *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "prices",
		Short: "Show the prices of the configured models",
		Long: "Show the prices of each target of the configured models, in US dollars per million tokens, and where they come from:\n" +
			"configured (pricing in the configuration), file (the price list in pricing.file), built-in (the price list in the\n" +
			"binary, whose date and source are shown), or none. A budget rejects requests to targets without a price.",
		Example: "  sluice prices\n  sluice prices --config /etc/sluice/gateway.toml --format json",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if format != "table" && format != "json" {
				return newUsageError(c, "invalid --format %q: want table or json", format)
			}
			cfg, err := o.load("")
			if err != nil {
				return err
			}
			r := reportPrices(cfg)
			if format == "json" {
				return json.NewEncoder(c.OutOrStdout()).Encode(r)
			}
			return r.print(c.OutOrStdout())
		},
	}
	formatFlag(c, &format, []string{"table", "json"})
	return c
}

func reportPrices(cfg *config.Config) *pricesReport {
	r := &pricesReport{File: cfg.PriceFile, Models: []modelPrices{}}
	r.BuiltIn.Source, r.BuiltIn.Commit, r.BuiltIn.Date = config.PriceListSource, config.PriceListCommit, config.PriceListDate
	for i := range cfg.Models {
		m := &cfg.Models[i]
		add := func(provider, target string, p *config.Pricing) {
			row := modelPrices{Model: m.ID, Provider: provider, Target: target, Source: cmp.Or(string(p.Source), "none")}
			if p.Known {
				row.Pricing = p.Prices
			}
			r.Models = append(r.Models, row)
		}
		for j := range m.Targets {
			add(m.Targets[j].Provider, m.Targets[j].Model, &m.Targets[j].Pricing)
		}
		if m.Canary != nil {
			add(m.Canary.Provider, m.Canary.Model, &m.Canary.Pricing)
		}
		for j := range m.Shadows {
			add(m.Shadows[j].Provider, m.Shadows[j].Model, &m.Shadows[j].Pricing)
		}
	}
	return r
}

func (r *pricesReport) print(w io.Writer) error {
	fmt.Fprintf(w, "built-in price list of %s: %s at commit %s\n", r.BuiltIn.Date, r.BuiltIn.Source, r.BuiltIn.Commit)
	if r.File != "" {
		fmt.Fprintf(w, "price list of the configuration: %s\n", r.File)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tTARGET\tSOURCE\tPRICES")
	for _, m := range r.Models {
		prices := ""
		if m.Pricing != nil {
			prices = m.Pricing.String()
		}
		fmt.Fprintf(t, "%s\t%s/%s\t%s\t%s\n", m.Model, m.Provider, m.Target, m.Source, prices)
	}
	return t.Flush()
}
