package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
)

// pluginProfile is `sluice plugin profile`.
type pluginProfile struct {
	pluginRun
	output, flame string
	samples       int
}

func newPluginProfileCommand(o *options) *cobra.Command {
	p := &pluginProfile{pluginRun: pluginRun{options: o}, samples: 1000}
	c := &cobra.Command{
		Use:   "profile [FILE|DIR] [--request FILE]",
		Short: "Show where a provider plugin uses fuel",
		Long: "Run a provider plugin on its vectors, or on one request, and find out which functions use how much fuel. The profile is\n" +
			"the same on every machine. It is written to a file in the format of pprof, which `go tool pprof -http=:` shows as a flame\n" +
			"graph, and with --flame as a picture. Functions of other languages than Go need a name section in the module.",
		Example: "  sluice plugin profile\n  sluice plugin profile anthropic --request request.json --flame fuel.svg",
		Args:    atMostOneArgument("FILE or DIR"),
		RunE:    p.runE,
	}
	p.register(c)
	p.registerRequest(c)
	c.Flags().StringVarP(&p.output, "output", "o", "fuel.pprof", "`file` for the profile")
	c.Flags().StringVar(&p.flame, "flame", "", "`file` for a flame graph, in SVG")
	c.Flags().IntVar(&p.samples, "samples", p.samples, "number of samples")
	return c
}

func (p *pluginProfile) runE(c *cobra.Command, args []string) error {
	if p.samples < 1 {
		return newUsageError(c, "--samples %d: want at least 1", p.samples)
	}
	s, err := p.open(c, subjectArgument(args))
	if err != nil {
		return err
	}
	suite := s.suite
	if p.request != "" {
		v, err := p.vector(c)
		if err != nil {
			return err
		}
		suite = plugindev.NewSuite(p.use(s), v)
	}
	h, closed, err := p.host()
	if err != nil {
		return err
	}
	defer closed()
	profile, err := suite.Profile(c.Context(), h, s.module, p.samples)
	if err != nil {
		return invalidPlugin(err)
	}
	if err := writeFile(p.output, profile.Write); err != nil {
		return err
	}
	if p.flame != "" {
		if err := writeFile(p.flame, profile.WriteFlameGraph); err != nil {
			return err
		}
	}
	return printProfile(c.OutOrStdout(), profile, p.output)
}

// writeFile writes a file whose content is small.
func writeFile(path string, write func(io.Writer) error) error {
	var b bytes.Buffer
	return errors.Join(write(&b), os.WriteFile(path, b.Bytes(), 0o644))
}

// maxFunctions limits the functions that are printed.
const maxFunctions = 15

func printProfile(w io.Writer, p *plugindev.Profile, file string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "OWN\tWITH CALLED\t  FUNCTION")
	for i, f := range p.Functions() {
		if i == maxFunctions {
			break
		}
		fmt.Fprintf(t, "%.1f%%\t%.1f%%\t  %s\n", 100*f.Own, 100*f.Called, f.Name)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d units of fuel. Flame graph: go tool pprof -http=: %s\n", p.Units, file)
	return err
}
