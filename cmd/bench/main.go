// Command bench compares the cost of the gateway with that of a bare reverse proxy on the same HTTP library, and of
// nginx if it is installed. It needs no network: it starts a provider, a load generator, the bare proxy, nginx and the
// gateway as separate processes, and reads the resource usage of each from the operating system.
//
// The main result is CPU time, as a ratio to the bare proxy's in the same round, because wall time on a shared machine
// means little. This package defines the measurements (cases) and the processes (stage). The roles are in packages
// provider, load, bare and process, and the results in package report.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-gateway/sluice/cmd/bench/report"
)

// version is set by the linker.
var version = "unknown"

// options has the flags, and settings that only tests change.
type options struct {
	run        string
	plugin     string
	rounds     int
	slice      time.Duration
	held       int
	active     int
	silent     int
	silence    time.Duration
	sluice     string
	base       string
	gateway    string
	out        string
	cpuProfile string
	memProfile string
	quick      bool
	list       bool
	details    bool
	warm       time.Duration // warm-up before each slice
	settle     time.Duration // pause before memory is measured
	afterBurst time.Duration // the same, after a burst of streams
	cache      string        // cache directory for compiled plugins; "" for a temporary one
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command runs a command line.
func command(ctx context.Context, args []string) error {
	if len(args) > 1 && args[0] == "role" {
		return role(args[1], args[2:])
	}
	o := &options{warm: 200 * time.Millisecond, settle: 3 * time.Second, afterBurst: 10 * time.Second}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.run, "run", "", "run only cases whose name matches `regexp`")
	f.StringVar(&o.plugin, "plugin", "", "run only with this `plugin`, openai or anthropic, if a case has both")
	f.BoolVar(&o.list, "list", false, "list the cases")
	f.BoolVar(&o.quick, "quick", false, "a first look in about a minute: lower defaults for rounds, slice, held, active, silent and silence")
	f.IntVar(&o.rounds, "rounds", 9, "number of rounds per case")
	f.DurationVar(&o.slice, "slice", time.Second, "how long each subject is measured per round")
	f.IntVar(&o.held, "held", 5000, "number of open streams for memory measurements")
	f.IntVar(&o.active, "active", 3000, "number of open streams for measurements of their memory after a burst")
	f.IntVar(&o.silent, "silent", 10_000, "number of silent streams; fewer if the limit of open files is too low")
	f.DurationVar(&o.silence, "silence", time.Minute, "how long silent streams are measured")
	f.StringVar(&o.sluice, "sluice", "bin/sluice", "gateway `binary`")
	f.StringVar(&o.base, "base", "", "gateway `binary` of another version, to compare with")
	f.StringVar(&o.gateway, "gateway", "gateway.toml", "`configuration` for start-up measurements")
	f.StringVar(&o.out, "o", "", "write results as JSON to this `file`, and as SVG and Markdown next to it")
	f.StringVar(&o.cpuProfile, "cpuprofile", "", "profile the gateway's CPU time to this `file` (runs the gateway inside bench)")
	f.StringVar(&o.memProfile, "memprofile", "", "profile the gateway's memory to this `file` after the last case: use with -run")
	f.BoolVar(&o.details, "v", false, "print details per subject, including system calls")
	f.Usage = func() {
		fmt.Fprint(f.Output(), "Compare CPU time, memory and start-up of the gateway with a bare fasthttp reverse proxy and nginx.\n\n"+
			"usage: bench [flags]\n\n"+
			"  bench                                          everything, about half an hour\n"+
			"  bench -quick                                   a first look\n"+
			"  bench -run non-streaming -rounds 15            some cases, longer\n"+
			"  bench -base bin/sluice-v1.2                    with the gateway of another version\n"+
			"  bench -run unpaced -cpuprofile cpu.prof        then: go tool pprof -top bin/bench cpu.prof\n\n")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	if _, known := models[o.plugin]; o.plugin != "" && !known {
		return fmt.Errorf("invalid -plugin %q: want openai or anthropic", o.plugin)
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; see bench --help", f.Arg(0))
	}
	if o.quick {
		set := map[string]bool{}
		f.Visit(func(f *flag.Flag) { set[f.Name] = true })
		for name, value := range map[string]string{"rounds": "3", "slice": "500ms", "held": "1000", "active": "1000", "silent": "2000", "silence": "10s"} {
			if !set[name] {
				if err := f.Set(name, value); err != nil {
					return err
				}
			}
		}
	}
	return o.compare(ctx, os.Stdout, os.Stderr)
}

// compare runs the selected cases and shows the results.
func (o *options) compare(ctx context.Context, out, progress io.Writer) error {
	selected, err := o.selectCases()
	if err != nil {
		return err
	}
	if o.list {
		for _, c := range selected {
			fmt.Fprintln(out, c.name)
		}
		return nil
	}
	s, err := newStage(ctx, o, progress)
	if err != nil {
		return err
	}
	began := time.Now()
	for i, c := range selected {
		if err = s.runCase(c, i+1, len(selected)); err != nil {
			err = fmt.Errorf("%s: %w", c.name, err)
			break
		}
	}
	// After a failure, show the results so far.
	err = errors.Join(err, s.close())
	fmt.Fprintf(progress, "%s\n\n", time.Since(began).Round(time.Second))
	return errors.Join(err, o.show(&s.report, out))
}

// show writes the results.
func (o *options) show(r *report.Report, out io.Writer) error {
	if err := r.Table(out); err != nil {
		return err
	}
	if o.details {
		fmt.Fprintln(out)
		for _, u := range r.Details {
			fmt.Fprintf(out, "%-40s %-18s %9d units  %8.2f µs  %6.2f reads  %6.2f writes\n", u.Case, u.Subject, u.Units, u.CPU, u.Reads, u.Writes)
		}
	}
	if o.out == "" {
		return nil
	}
	return errors.Join(
		write(o.out, r.JSON),
		write(strings.TrimSuffix(o.out, filepath.Ext(o.out))+".svg", r.Picture),
		write(strings.TrimSuffix(o.out, filepath.Ext(o.out))+".md", r.Markdown),
	)
}

func write(name string, content func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(content(f), f.Close())
}

// dialects returns the provider dialects: one that the gateway reads natively, and one that a plugin translates.
func (o *options) dialects() []string {
	if o.plugin != "" {
		return []string{o.plugin}
	}
	return []string{"openai", "anthropic"}
}

// selectCases returns the cases that -run selects.
func (o *options) selectCases() (list []benchCase, err error) {
	pattern, err := regexp.Compile(o.run)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	for _, c := range cases() {
		if pattern.MatchString(c.name) {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no case matches %q; list the cases with -list", o.run)
	}
	return list, nil
}
