package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func newTopCommand(o *options) *cobra.Command {
	var bases []string
	var every time.Duration
	var once, byGateway bool
	c := &cobra.Command{
		Use:   "top",
		Short: "Show what runs now on running gateways",
		Long: "Show the requests in flight by key, model and target: how many there are, how many have failed attempts, and how long the\n" +
			"oldest one has been running. The table is redrawn until the command is interrupted. A gateway returns at most 1,000\n" +
			"requests in flight.\n\n" + gatewaysHelp,
		Example: "  sluice top\n  sluice top --once --admin http://gateways.internal:8081",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return newUsageError(c, "invalid --every %s: want at least 100ms", every)
			}
			addresses, err := o.gatewayAddresses(c, bases)
			if err != nil {
				return err
			}
			ticks := time.NewTicker(every)
			defer ticks.Stop()
			for {
				all, err := listRequests(c, addresses, url.Values{"state": {"in_flight"}, "limit": {"1000"}})
				if err != nil {
					return err
				}
				var table bytes.Buffer
				if !once {
					table.WriteString("\x1b[H\x1b[2J") // clear the terminal
				}
				writeTop(&table, all, byGateway)
				if _, err := c.OutOrStdout().Write(table.Bytes()); err != nil || once {
					return err
				}
				select {
				case <-ticks.C:
				case <-c.Context().Done():
					return nil
				}
			}
		},
	}
	gatewaysFlag(c, &bases)
	c.Flags().DurationVar(&every, "every", time.Second, "`duration` between updates")
	c.Flags().BoolVar(&once, "once", false, "print the table once")
	c.Flags().BoolVar(&byGateway, "gateway", false, "show the gateways separately")
	return c
}

// topKey is what requests in flight are grouped by.
type topKey struct{ key, model, target, gateway string }

// writeTop writes the requests in flight by key, model and target, the most frequent first.
func writeTop(w io.Writer, all []recentRequest, byGateway bool) {
	type group struct {
		n, failed int
		oldest    float64
	}
	groups := make(map[topKey]group)
	for i := range all {
		r := &all[i]
		k := topKey{key: r.Key, model: r.Model, target: r.lastTarget()}
		if byGateway {
			k.gateway = r.Gateway
		}
		g := groups[k]
		g.n++
		if slices.ContainsFunc(r.Tries, func(t recentTry) bool { return t.Code != "" }) {
			g.failed++
		}
		g.oldest = max(g.oldest, r.Duration)
		groups[k] = g
	}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b topKey) int {
		return cmp.Or(cmp.Compare(groups[b].n, groups[a].n), cmp.Compare(a.key, b.key), cmp.Compare(a.model, b.model), cmp.Compare(a.target, b.target), cmp.Compare(a.gateway, b.gateway))
	})
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%d requests in flight\n", len(all))
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...string) {
		if !byGateway {
			cells = cells[:len(cells)-1]
		}
		for i := range cells {
			cells[i] = cmp.Or(strings.Map(printableRune, cells[i]), "-")
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	row("requests", "failed_attempts", "oldest", "key", "model", "target", "gateway")
	for _, k := range keys {
		g := groups[k]
		row(fmt.Sprint(g.n), fmt.Sprint(g.failed), milliseconds(g.oldest), k.key, k.model, k.target, k.gateway)
	}
	_ = t.Flush()
	_ = out.Flush()
}
