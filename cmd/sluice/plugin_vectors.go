package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/config/watch"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/plugindev/project"
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
	native, debug bool
	pattern       string
	run           *regexp.Regexp
	built         [sha256.Size]byte // digest of the sources that --watch has built
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
			"The folder of a plugin in Go is also compiled for this machine, without a network, and its vectors run on the native\n" +
			"code, which must give the same. A panic is printed with its place. --debug waits for a debugger first.\n\n" +
			"--update writes the want.txt of vectors that differ; its diff is what to review. --watch builds the plugin of a folder,\n" +
			"and does so again whenever its source has changed; it runs the vectors again whenever the module or a vector has\n" +
			"changed, until it is interrupted.\n\n" +
			"The exit code is the number of vectors that failed, at most 99. Where none was run, it is that of other commands: 1, 2\n" +
			"or 3, with an error and no line about vectors.",
		Example: "  sluice plugin test\n  sluice plugin test plugin.wasm --run tools --watch\n  sluice plugin test recorded --update",
		Args:    atMostOneArgument("FILE or DIR"),
		RunE:    t.runE,
	}
	t.register(c)
	c.Flags().BoolVar(&t.update, "update", false, "write the want.txt of vectors that differ")
	c.Flags().BoolVar(&t.watch, "watch", false, "run again when files change")
	c.Flags().BoolVar(&t.native, "native", true, "run a plugin in Go as native code too")
	c.Flags().BoolVar(&t.debug, "debug", false, "wait for a debugger of the native code, and give it time")
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
	if err := t.rebuild(ctx, argument, files); err != nil {
		return err
	}
	files.Add(argument)
	s, err := t.open(t.c, argument)
	if err != nil {
		return err
	}
	files.Add(s.suite.Files()...)
	if s.file != "" {
		files.Add(s.file)
	}
	native, closed, err := t.buildNative(ctx, s)
	if err != nil {
		return err
	}
	defer closed()
	tested, err := s.suite.Test(ctx, h, s.module, plugindev.TestOptions{Run: t.run, Update: t.update, Native: native})
	if err != nil {
		return invalidPlugin(err)
	}
	return printTested(t.c.OutOrStdout(), tested, native != nil)
}

// rebuild builds the plugin of a folder that is watched, if its sources are not those that it has built last.
func (t *pluginTest) rebuild(ctx context.Context, argument string, files *watch.Watcher) error {
	if _, err := os.Stat(filepath.Join(argument, project.ManifestFile)); err != nil || files == nil {
		return nil
	}
	files.Add(filepath.Join(argument, project.ManifestFile))
	p, err := project.Load(argument)
	if err != nil {
		return err
	}
	sources, err := p.Sources()
	if err != nil {
		return err
	}
	files.Add(sources...)
	h := sha256.New()
	for _, path := range sources {
		text, _ := os.ReadFile(path) // of a folder, and of a file that has gone since, the name
		fmt.Fprintf(h, "%q %d\n%s", path, len(text), text)
	}
	digest := [sha256.Size]byte(h.Sum(nil))
	if digest == t.built {
		return nil
	}
	if err := buildPlugin(ctx, t.c, p); err != nil {
		return err
	}
	t.built = digest
	return nil
}

// nativeTimeout is how long a call of native code may take. It is long because it only passes when a plugin hangs.
const nativeTimeout = 10 * time.Second

// buildNative builds the native code of a plugin in Go. There is none without an error where it is not wanted or cannot be had. The
// caller calls closed.
func (t *pluginTest) buildNative(ctx context.Context, s *subject) (n *plugindev.Native, closed func(), err error) {
	if s.project == nil || s.project.Language != "go" || !t.native {
		return nil, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "sluice-native-")
	if err != nil {
		return nil, nil, err
	}
	n = &plugindev.Native{Program: filepath.Join(dir, s.project.Name), Timeout: nativeTimeout, Output: t.c.ErrOrStderr()}
	closed = func() { n.Close(); os.RemoveAll(dir) }
	err = project.NewBuilder(os.Environ(), t.c.ErrOrStderr()).BuildNative(ctx, s.project, n.Program, t.debug)
	if err == nil && t.debug {
		err = t.awaitDebugger(n)
	}
	if err == nil {
		return n, closed, nil
	}
	closed()
	if _, missing := errors.AsType[*project.MissingError](err); missing || errors.Is(err, project.ErrOldKit) {
		fmt.Fprintf(t.c.ErrOrStderr(), "sluice: not run as native code: %v\n", err)
		return nil, func() {}, nil
	}
	return nil, nil, err
}

// awaitDebugger waits for a line, as the user does what it says.
func (t *pluginTest) awaitDebugger(n *plugindev.Native) error {
	pid, err := n.PID()
	if err != nil {
		return err
	}
	n.Timeout = 0
	fmt.Fprintf(t.c.ErrOrStderr(), "The plugin is process %d. Attach a debugger, as with `dlv attach %d`, set breakpoints, and press Enter.\n", pid, pid)
	_, err = bufio.NewReader(t.c.InOrStdin()).ReadString('\n')
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// printTested prints what came of vectors, on the module and perhaps on native code. The error is the number of those that failed.
func printTested(w io.Writer, tested []plugindev.Tested, native bool) error {
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
	fmt.Fprintf(w, "%s passed", plural(len(tested), "vector"))
	if native {
		fmt.Fprint(w, ", as a module and as native code")
	}
	fmt.Fprintln(w)
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
