// Command bench compares what the gateway costs with what a bare reverse proxy on the same library costs, and with nginx
// where it is installed. It needs no network: it starts a provider, a load generator, the bare proxy, nginx and the
// gateway as processes of their own, and reads from the operating system what each has used.
//
// CPU time is what counts, as a ratio to the bare proxy's in the same round: wall time on a shared machine says little.
// The parts are in packages of their own: provider, load, bare and process, and report for the results. This package says
// what is measured (cases) and with what (stage).
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

// options are the flags.
type options struct {
	run        string
	plugin     string
	rounds     int
	slice      time.Duration
	held       int
	silent     int
	silence    time.Duration
	sluice     string
	gateway    string
	out        string
	cpuProfile string
	memProfile string
	quick      bool
	list       bool
	details    bool
	warm       time.Duration // before a slice counts
	settle     time.Duration // before memory is read
	cache      string        // of compiled plugins; "" for one of its own
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
	o := &options{warm: 200 * time.Millisecond, settle: 3 * time.Second}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.run, "run", "", "measure only the cases whose name matches this `regexp`")
	f.StringVar(&o.plugin, "plugin", "", "only with this plugin, where a case has more: openai or anthropic")
	f.BoolVar(&o.list, "list", false, "list the cases and stop")
	f.BoolVar(&o.quick, "quick", false, "a first look in a minute: fewer rounds, streams and seconds, where no other flag says how many")
	f.IntVar(&o.rounds, "rounds", 7, "how often each case is measured, all subjects in turn")
	f.DurationVar(&o.slice, "slice", time.Second, "how long a subject is measured in each round")
	f.IntVar(&o.held, "held", 5000, "open streams when memory is measured")
	f.IntVar(&o.silent, "silent", 10_000, "silent streams; fewer where the limit of open files is too low for that")
	f.DurationVar(&o.silence, "silence", time.Minute, "how long the silent streams are watched")
	f.StringVar(&o.sluice, "sluice", "bin/sluice", "the gateway's `binary`")
	f.StringVar(&o.gateway, "gateway", "gateway.toml", "the `configuration` whose start is measured")
	f.StringVar(&o.out, "o", "", "write the results as JSON to this `file`, and a picture beside it")
	f.StringVar(&o.cpuProfile, "cpuprofile", "", "run the gateway inside this program, and write its CPU profile to this `file`")
	f.StringVar(&o.memProfile, "memprofile", "", "the same with a profile of its memory, when it has served the case: use -run")
	f.BoolVar(&o.details, "v", false, "say for every subject what a unit used, system calls too")
	f.Usage = func() {
		fmt.Fprint(f.Output(), "Compare the gateway's CPU time, memory and start with a bare fasthttp reverse proxy and with nginx.\n\n"+
			"usage: bench [flags]\n\n"+
			"  bench                                          everything, about ten minutes\n"+
			"  bench -quick                                   a first look\n"+
			"  bench -run 'whole' -rounds 15                  some cases, longer\n"+
			"  bench -run 'unpaced' -cpuprofile cpu.prof      where the time goes: go tool pprof -top bin/bench cpu.prof\n\n")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	if _, known := models[o.plugin]; o.plugin != "" && !known {
		return fmt.Errorf("-plugin %q: openai or anthropic", o.plugin)
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; see bench --help", f.Arg(0))
	}
	if o.quick {
		said := map[string]bool{}
		f.Visit(func(f *flag.Flag) { said[f.Name] = true })
		for name, value := range map[string]string{"rounds": "3", "slice": "500ms", "held": "1000", "silent": "2000", "silence": "10s"} {
			if !said[name] {
				if err := f.Set(name, value); err != nil {
					return err
				}
			}
		}
	}
	return o.compare(ctx, os.Stdout, os.Stderr)
}

// compare measures the cases and shows the results.
func (o *options) compare(ctx context.Context, out, progress io.Writer) error {
	chosen, err := o.chosen()
	if err != nil {
		return err
	}
	if o.list {
		for _, c := range chosen {
			fmt.Fprintln(out, c.name)
		}
		return nil
	}
	s, err := newStage(ctx, o, progress)
	if err != nil {
		return err
	}
	began := time.Now()
	for i, c := range chosen {
		if err = s.play(c, i+1, len(chosen)); err != nil {
			err = fmt.Errorf("%s: %w", c.name, err)
			break
		}
	}
	// What was measured before something failed is shown.
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

// dialects are those that the gateway is measured with: the one that it reads itself, and one that a plugin translates.
func (o *options) dialects() []string {
	if o.plugin != "" {
		return []string{o.plugin}
	}
	return []string{"openai", "anthropic"}
}

// chosen are the cases that -run names.
func (o *options) chosen() (list []aCase, err error) {
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
		return nil, fmt.Errorf("no case matches %q; -list names them", o.run)
	}
	return list, nil
}
