package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
)

func newPluginScoreCommand(o *options) *cobra.Command {
	f, format := &pluginFlags{}, new(reportFormat)
	c := &cobra.Command{
		Use:   "score [FILE|DIR]",
		Short: "Run the conformance suite on a plugin",
		Long: "Test each rule of the plugin ABI that a plugin can break, on variations of its vectors: instances that keep state, events\n" +
			"that are truncated, unknown or arrive after the end, responses that end early or are not valid, requests of all kinds,\n" +
			"statuses and model lists. The argument is the same as for `sluice plugin test`. Rules that do not apply to the plugin are\n" +
			"not counted.\n\n" +
			"The exit code is 1 if a rule is broken.",
		Example: "  sluice plugin score plugin.wasm",
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
			marks, err := s.suite.Score(context.Background(), h, s.module)
			if err != nil {
				return invalidPlugin(err)
			}
			printLog(c.ErrOrStderr(), h)
			if *format != "text" {
				cases, broken := markCases(marks)
				if err := format.write(c.OutOrStdout(), s.module.Name, cases); err != nil || broken == 0 {
					return err
				}
				return fmt.Errorf("%s broken", plural(broken, "rule"))
			}
			return printMarks(c.OutOrStdout(), marks)
		},
	}
	f.register(c)
	format.register(c)
	return c
}

// printMarks prints the result of each rule. The error is the number of broken rules.
func printMarks(w io.Writer, marks []plugindev.Mark) error {
	tried, kept, warned := 0, 0, 0
	for _, m := range marks {
		switch {
		case len(m.Warnings) > 0:
			warned += len(m.Warnings)
			for _, text := range m.Warnings {
				fmt.Fprintf(w, "warn  %s\n", strings.ReplaceAll(text, "\n", "\n      "))
			}
			continue
		case m.Tried == 0:
			fmt.Fprintf(w, "-     %s\n", m.Rule)
			continue
		case m.Broken == "":
			kept++
			fmt.Fprintf(w, "ok    %s  (%s)\n", m.Rule, plural(m.Tried, "trial"))
		default:
			fmt.Fprintf(w, "FAIL  %s\n      %s\n", m.Rule, strings.ReplaceAll(m.Broken, "\n", "\n      "))
		}
		tried++
	}
	fmt.Fprintf(w, "%d of %s kept", kept, plural(tried, "rule"))
	if warned > 0 {
		fmt.Fprintf(w, ", %s", plural(warned, "warning"))
	}
	fmt.Fprintln(w)
	if kept < tried {
		return fmt.Errorf("%s broken", plural(tried-kept, "rule"))
	}
	return nil
}
