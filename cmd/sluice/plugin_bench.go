package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
)

func newPluginBenchCommand(o *options) *cobra.Command {
	f, format := &pluginFlags{}, new(reportFormat)
	atLeast := 200 * time.Millisecond
	c := &cobra.Command{
		Use:   "bench [FILE|DIR]",
		Short: "Measure a plugin's calls",
		Long: "Measure the time and fuel of a plugin's calls on its vectors: building a request, reading an event of a stream, and\n" +
			"reading a non-streaming response. For comparison, the built-in plugins of its kind are measured with a request of a\n" +
			"few words.\n" +
			"Times include the gateway's own work for a call. Time and fuel are medians.",
		Example: "  sluice plugin bench plugin.wasm",
		Args:    atMostOneArgument("FILE or DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := f.open(c, subjectArgument(args))
			if err != nil {
				return err
			}
			h, closed, err := o.host()
			if err != nil {
				return err
			}
			defer closed()
			rows, err := s.suite.Bench(c.Context(), h, s.module, atLeast)
			if err != nil {
				return invalidPlugin(err)
			}
			printLog(c.ErrOrStderr(), h)
			kind := ""
			if len(rows) > 0 {
				kind, _, _ = strings.Cut(rows[0].Call, "_")
			}
			for _, name := range plugins.Names() {
				module, err := bundledModule(name)
				if err != nil || name == s.module.Name {
					continue // the binary was built without plugins, or this one was measured above
				}
				use, err := presetUse(name)
				if err != nil {
					return err
				}
				more, err := plugindev.BenchHello(c.Context(), h, module, use, kind, atLeast)
				if err != nil {
					return err
				}
				rows = append(rows, more...)
			}
			if *format != "text" {
				return format.write(c.OutOrStdout(), s.module.Name, measureCases(rows))
			}
			t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', tabwriter.AlignRight)
			fmt.Fprintln(t, "PLUGIN\tCALL\tTIME\tFUEL\tOF ITS BUDGET\tCALLS\t")
			for _, r := range rows {
				fmt.Fprintf(t, "%s\t%s\t%v\t%d\t%.2f%%\t%d\t\n", r.Plugin, r.Call, r.Time.Round(10*time.Nanosecond), r.Fuel, 100*r.Share, r.Calls)
			}
			return t.Flush()
		},
	}
	f.register(c)
	format.register(c)
	c.Flags().DurationVar(&atLeast, "time", atLeast, "`duration` to measure")
	return c
}
