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
	f := &pluginFlags{}
	c := &cobra.Command{
		Use:   "score FILE|DIR",
		Short: "Run the conformance suite on a plugin",
		Long: "Try each rule of the plugin ABI that a plugin can break, on variations of its vectors: instances that remember, events\n" +
			"that are torn, unknown or come after the end, responses that end early or are nothing, requests of all kinds, statuses\n" +
			"and model lists. The plugin is one that `sluice plugin test` takes. A rule that nothing of the plugin could break is\n" +
			"not counted.\n\n" +
			"The exit code is 1 if a rule is broken.",
		Example: "  sluice plugin score plugin.wasm",
		Args:    oneArgument("FILE or DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := f.open(c, args[0])
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
			return printMarks(c.OutOrStdout(), marks)
		},
	}
	f.register(c)
	return c
}

// printMarks prints what came of each rule. The error says how many are broken.
func printMarks(w io.Writer, marks []plugindev.Mark) error {
	tried, kept := 0, 0
	for _, m := range marks {
		switch {
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
	fmt.Fprintf(w, "%d of %s kept\n", kept, plural(tried, "rule"))
	if kept < tried {
		return fmt.Errorf("%s broken", plural(tried-kept, "rule"))
	}
	return nil
}
