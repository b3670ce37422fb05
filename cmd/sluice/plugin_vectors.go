package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/config/watch"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
)

// failedVectors is the number of vectors that failed, which is the exit code.
type failedVectors int

func (n failedVectors) Error() string { return plural(int(n), "vector") + " failed" }

// maxFailedVectors keeps exit codes away from those that shells and signals use.
const maxFailedVectors = 99

// pluginTest is `sluice plugin test`.
type pluginTest struct {
	*options
	pluginFlags
	c             *cobra.Command
	update, watch bool
	pattern       string
	run           *regexp.Regexp
}

func newPluginTestCommand(o *options) *cobra.Command {
	t := &pluginTest{options: o}
	c := &cobra.Command{
		Use:   "test [FILE|DIR]",
		Short: "Run a plugin's vectors",
		Long: "Run a plugin's vectors, and compare what comes of each with its want.txt. The plugin is the folder of a plugin that\n" +
			"was built, a module's file, whose vectors are in testdata/vectors beside it, a folder that `sluice plugin record` has\n" +
			"written, or the name of a built-in plugin.\n\n" +
			"Each vector runs on fresh instances, on an instance that has served all other vectors, after clients that left early,\n" +
			"and with the provider's response cut at each byte, or at 256 places of a long one. The results must be the same.\n\n" +
			"--update writes the want.txt of vectors that differ; its diff is what to review. --watch runs the vectors again\n" +
			"whenever the module or a vector has changed, until it is interrupted.\n\n" +
			"The exit code is the number of vectors that failed, at most 99. Where none was run, it is that of other commands: 1, 2\n" +
			"or 3, with an error and no line about vectors.",
		Example: "  sluice plugin test\n  sluice plugin test plugin.wasm --run tools --watch\n  sluice plugin test recorded --update",
		Args:    atMostOneArgument("FILE or DIR"),
		RunE:    t.runE,
	}
	t.register(c)
	c.Flags().BoolVar(&t.update, "update", false, "write the want.txt of vectors that differ")
	c.Flags().BoolVar(&t.watch, "watch", false, "run again when files change")
	c.Flags().StringVar(&t.pattern, "run", "", "run only vectors whose name matches a regular `expression`")
	return c
}

// oneArgument requires the one argument that a command is about.
func oneArgument(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return newUsageError(c, "`%s` takes one argument: %s", c.CommandPath(), what)
		}
		return nil
	}
}

// atMostOneArgument takes one argument, which is the working directory if it is left out.
func atMostOneArgument(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return newUsageError(c, "`%s` takes at most one argument: %s", c.CommandPath(), what)
		}
		return nil
	}
}

// subjectArgument is the argument of a command with atMostOneArgument.
func subjectArgument(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

func (t *pluginTest) runE(c *cobra.Command, args []string) (err error) {
	t.c = c
	if t.pattern != "" {
		if t.run, err = regexp.Compile(t.pattern); err != nil {
			return newUsageError(c, "--run %q: %w", t.pattern, err)
		}
	}
	h, closed, err := t.host()
	if err != nil {
		return err
	}
	defer closed()
	if !t.watch {
		return t.once(context.Background(), h, subjectArgument(args), nil)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	files, err := watch.New(func(err error) { fmt.Fprintf(c.ErrOrStderr(), "sluice: cannot watch all files: %v\n", err) })
	if err != nil {
		return err
	}
	defer files.Close()
	for {
		if err := t.once(ctx, h, subjectArgument(args), files); err != nil {
			fmt.Fprintln(c.ErrOrStderr(), formatError(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-files.Changed():
			fmt.Fprintln(c.OutOrStdout())
		}
	}
}

// once runs the vectors. Files are added before they are read, so that no change is missed.
func (t *pluginTest) once(ctx context.Context, h *plugindev.Host, argument string, files *watch.Watcher) error {
	files.Add(argument)
	s, err := t.open(t.c, argument)
	if err != nil {
		return err
	}
	files.Add(s.suite.Files()...)
	if s.file != "" {
		files.Add(s.file)
	}
	tested, err := s.suite.Test(ctx, h, s.module, plugindev.TestOptions{Run: t.run, Update: t.update})
	if err != nil {
		return invalidPlugin(err)
	}
	return printTested(t.c.OutOrStdout(), tested)
}

// printTested prints what came of vectors. The error is the number of those that failed.
func printTested(w io.Writer, tested []plugindev.Tested) error {
	failed := 0
	for i := range tested {
		v := &tested[i]
		switch {
		case len(v.Failures) > 0:
			failed++
			fmt.Fprintf(w, "FAIL  %s\n", v.Name)
		case v.Updated:
			fmt.Fprintf(w, "wrote %s/want.txt\n", v.Name)
		default:
			fmt.Fprintf(w, "ok    %s  (%s)\n", v.Name, costText(v.Cost))
		}
		for _, f := range v.Failures {
			fmt.Fprintf(w, "      %s: %s\n", f.Where, strings.ReplaceAll(f.Text, "\n", "\n      "))
		}
	}
	if failed > 0 {
		fmt.Fprintf(w, "%d of %s failed\n", failed, plural(len(tested), "vector"))
		return failedVectors(failed)
	}
	fmt.Fprintf(w, "%s passed\n", plural(len(tested), "vector"))
	return nil
}

// costText is what a vector's calls took.
func costText(c plugindev.Cost) string {
	s := fmt.Sprintf("fuel %d", c.Request)
	if c.Reads > 0 {
		s += fmt.Sprintf(" + %d in %s", c.Reading, plural(c.Reads, "call"))
	}
	return s + fmt.Sprintf(", %.1f%% of a budget", 100*c.Share)
}
