package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// modulesEnv is the environment variable with the folder of the plugins, for the test binary as the gateway.
const modulesEnv = "BENCH_TEST_MODULES"

// TestMain runs the test binary as a role or as the gateway if its first argument says so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "role" || os.Args[1] == "serve") {
		var err error
		if os.Args[1] == "role" {
			err = command(context.Background(), os.Args[1:])
		} else {
			err = serveAsSluice(os.Args)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveAsSluice implements the part of sluice serve that bench needs.
func serveAsSluice(args []string) error {
	file := args[len(args)-1]
	cfg, err := config.Load(file, config.Options{Bundled: []string{"openai", "anthropic", "router", "secrets", "blocklist"}})
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, err := proxy.New(context.Background(), proxy.Options{Config: cfg, Bundled: os.DirFS(os.Getenv(modulesEnv)), Log: log})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go s.Serve(ln)
	log.Info("listening", "address", ln.Addr().String())
	<-stop
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.Shutdown(ctx)
}

// TestComparisonReport runs short versions of some cases with all their processes, and checks the table and the files.
func TestComparisonReport(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every subject of the comparison, with its processes")
	}
	if runtime.GOOS != "linux" {
		t.Log("the benchmark reads process accounting of Linux")
		return
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "all.wasm"), plugintest.Build(t, "./plugins/all"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(modulesEnv, dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Compiling takes minutes under the race detector, so all tests share a cache.
	caches, err := os.UserCacheDir()
	if err != nil {
		caches = dir
	}
	out := filepath.Join(dir, "results.json")
	o := &options{
		run: "prompt of 200 B|paced stream|first event|silent|200 B with|Responses.* 1 KB", rounds: 2, slice: 50 * time.Millisecond, held: 20, active: 20, silent: 20, silence: 50 * time.Millisecond,
		settle: 10 * time.Millisecond, afterBurst: 10 * time.Millisecond, warm: 20 * time.Millisecond, sluice: self, out: out, details: true,
		cache: filepath.Join(caches, "sluice-plugintest", "compiled"),
	}
	var table, progress bytes.Buffer
	if err := o.compare(t.Context(), &table, &progress); err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	for _, want := range []string{"non-streaming, prompt of 200 B", "paced stream", "first event, 1 connection, p99", "held streams, prompt of 200 B", "silent streams", "active streams", "200 B with three targets", "VS. PLAIN", "sluice gpt-4o-mini"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, &table)
		}
	}
	if strings.Contains(table.String(), "NaN") {
		t.Errorf("the table has a NaN:\n%s", &table)
	}
	for _, ending := range []string{".json", ".svg", ".md"} {
		if info, err := os.Stat(strings.TrimSuffix(out, ".json") + ending); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", ending, err)
		}
	}
}

func TestCommandLine(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an unknown role": {[]string{"role", "none"}, "unknown role"},
		"no such case":    {[]string{"-run", "nothing like it"}, "no case matches"},
		"no binary":       {[]string{"-sluice", "is/not/there"}, "make build"},
		"an argument":     {[]string{"streams"}, "unexpected argument"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := command(t.Context(), c.args); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one containing %q", err, c.want)
			}
		})
	}
}

func TestCaseNamesAreUnique(t *testing.T) {
	o := &options{list: true}
	var out bytes.Buffer
	if err := o.compare(t.Context(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		if seen[line] {
			t.Errorf("duplicate case: %s", line)
		}
		seen[line] = true
	}
	if len(seen) < 10 {
		t.Errorf("got %d cases, want at least 10", len(seen))
	}
}
