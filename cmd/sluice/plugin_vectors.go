package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// failedVectors is an error with the number of vectors that failed, which is also the exit code.
type failedVectors int

func (n failedVectors) Error() string { return plural(int(n), "vector") + " failed" }

// maxFailedVectors limits the exit code, so that it does not collide with exit codes of shells and signals.
const maxFailedVectors = 99

// pluginTest is `sluice plugin test`.
type pluginTest struct {
	*options
	pluginFlags
	c             *cobra.Command
	update, watch bool
	native, debug bool
	format        reportFormat
	pattern       string
	run           *regexp.Regexp
	built         [sha256.Size]byte // digest of the sources that --watch built last
}

func newPluginTestCommand(o *options) *cobra.Command {
	t := &pluginTest{options: o}
	c := &cobra.Command{
		Use:   "test [FILE|DIR]",
		Short: "Run a plugin's vectors",
		Long: "Run a plugin's vectors, and compare the result of each with its want.txt. The argument is the folder of a plugin that was\n" +
			"built, a module's file with its vectors in testdata/vectors next to it, a folder that `sluice plugin record` wrote, or the\n" +
			"name of a built-in plugin.\n\n" +
			"Each vector runs on fresh instances, on an instance that has served all other vectors, after requests whose clients\n" +
			"disconnected, and with the provider's response split at each byte, or at 256 offsets of a long one. The results must be\n" +
			"the same.\n\n" +
			"A Go plugin's folder is also compiled for this machine, without a network, and the vectors run on the native code, which\n" +
			"must give the same results. A panic is printed with its source line. --debug waits for a debugger first.\n\n" +
			"--update writes the want.txt of vectors that differ, unless the plugin failed; review its diff. --watch builds the plugin\n" +
			"of a folder whenever its source changes, and runs the vectors whenever the module or a vector changes, until it is\n" +
			"interrupted.\n\n" +
			"The exit code is the number of vectors that failed, at most 99. If no vector could be run, the exit code is 1, 2 or 3, as\n" +
			"for other commands, with an error and no line about vectors.",
		Example: "  sluice plugin test\n  sluice plugin test plugin.wasm --run tools --watch\n  sluice plugin test recorded --update",
		Args:    atMostOneArgument("FILE or DIR"),
		RunE:    t.runE,
	}
	t.register(c)
	c.Flags().BoolVar(&t.update, "update", false, "write the want.txt of vectors that differ")
	c.Flags().BoolVar(&t.watch, "watch", false, "run again when files change")
	c.Flags().BoolVar(&t.native, "native", true, "run a plugin in Go as native code too")
	c.Flags().BoolVar(&t.debug, "debug", false, "wait for a debugger to attach to the native code, and do not limit the time of calls")
	t.format.register(c)
	c.Flags().StringVar(&t.pattern, "run", "", "run only vectors whose name matches a regular `expression`")
	return c
}

// oneArgument requires exactly one argument. what names it in the error.
func oneArgument(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return newUsageError(c, "`%s` takes one argument: %s", c.CommandPath(), what)
		}
		return nil
	}
}

// atMostOneArgument accepts one optional argument; see subjectArgument for its default. what names it in the error.
func atMostOneArgument(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return newUsageError(c, "`%s` takes at most one argument: %s", c.CommandPath(), what)
		}
		return nil
	}
}

// subjectArgument returns the argument of a command with atMostOneArgument, by default the working directory.
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
		return t.runVectors(context.Background(), h, subjectArgument(args), nil)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	files, err := watch.New(func(err error) { fmt.Fprintf(c.ErrOrStderr(), "sluice: cannot watch all files: %v\n", err) })
	if err != nil {
		return err
	}
	defer files.Close()
	for {
		before := t.inputs(subjectArgument(args))
		if err := t.runVectors(ctx, h, subjectArgument(args), files); err != nil {
			fmt.Fprintln(c.ErrOrStderr(), formatError(err))
		}
		for changed := false; !changed; {
			select {
			case <-ctx.Done():
				return nil
			case <-files.Changed():
				changed = t.inputs(subjectArgument(args)) != before
			}
		}
		fmt.Fprintln(c.OutOrStdout())
	}
}

// inputs returns a digest of what the results depend on: the sources of a plugin's folder, or else its module, and the
// vectors. Other files in the same folders change without consequences, among them those that a build writes.
func (t *pluginTest) inputs(argument string) [sha256.Size]byte {
	paths := []string{argument}
	vectors := cmp.Or(t.vectors, filepath.Join(filepath.Dir(argument), "testdata", "vectors"))
	if p, err := project.Load(argument); err == nil {
		paths, _ = p.Sources()
		paths = append(paths, filepath.Join(argument, project.ManifestFile))
		vectors = cmp.Or(t.vectors, p.Vectors())
	} else if info, err := os.Stat(argument); err == nil && info.IsDir() {
		vectors = cmp.Or(t.vectors, argument)
	}
	_ = filepath.WalkDir(vectors, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !(t.update && d.Name() == plugindev.WantFile) {
			paths = append(paths, path)
		}
		return nil // what cannot be read is reported by the run
	})
	return digestFiles(paths)
}

// digestFiles returns a digest of the names and contents of files. Of what cannot be read, such as a directory, only the
// name counts.
func digestFiles(paths []string) [sha256.Size]byte {
	h := sha256.New()
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		fmt.Fprintf(h, "%q %d\n%s", path, len(text), text)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// runVectors runs the vectors once. Files are added to the watcher before they are read, so that no change is missed.
func (t *pluginTest) runVectors(ctx context.Context, h *plugindev.Host, argument string, files *watch.Watcher) error {
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
	if t.format != "text" {
		cases, failed := testedCases(tested)
		if err := t.format.write(t.c.OutOrStdout(), s.module.Name, cases); err != nil || failed == 0 {
			return err
		}
		return failedVectors(failed)
	}
	return printTested(t.c.OutOrStdout(), tested, native != nil)
}

// rebuild builds the plugin of a watched folder if its sources have changed since the last build.
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
	digest := digestFiles(sources)
	if digest == t.built {
		return nil
	}
	if err := buildPlugin(ctx, t.c, p); err != nil {
		return err
	}
	t.built = digest
	return nil
}

// nativeTimeout limits a call of native code. It is long because it only expires when a plugin hangs.
const nativeTimeout = 10 * time.Second

// buildNative builds the native code of a Go plugin. It returns a nil Native without an error if native code was not
// requested, or if the toolchain or the plugin's kit does not support it. The caller must call closed.
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

// awaitDebugger asks the user to attach a debugger, and waits until they press Enter.
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

// printTested prints the result of each vector. native reports whether they also ran as native code. The error is a
// failedVectors.
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
		for _, line := range v.Log {
			fmt.Fprintf(w, "      log: %s\n", line)
		}
		for _, text := range v.Warnings {
			fmt.Fprintf(w, "      warning: %s\n", strings.ReplaceAll(text, "\n", "\n      "))
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

// costText formats the fuel that a vector's calls used.
func costText(c plugindev.Cost) string {
	s := fmt.Sprintf("fuel %d", c.Request)
	if c.Reads > 0 {
		s += fmt.Sprintf(" + %d in %s", c.Reading, plural(c.Reads, "call"))
	}
	return s + fmt.Sprintf(", %.1f%% of a budget", 100*c.Share)
}
