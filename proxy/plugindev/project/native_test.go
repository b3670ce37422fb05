package project_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/plugindev/project"
)

// buildNative builds a plugin in Go as native code, with a timeout for calls.
func buildNative(t *testing.T, p *project.Project, timeout time.Duration, printed *bytes.Buffer) *plugindev.Native {
	t.Helper()
	program := filepath.Join(t.TempDir(), "native")
	var errs bytes.Buffer
	if err := project.NewBuilder(os.Environ(), &errs).BuildNative(t.Context(), p, program, false); err != nil {
		t.Fatalf("%v\n%s", err, &errs)
	}
	n := &plugindev.Native{Program: program, Timeout: timeout, Output: printed}
	t.Cleanup(n.Close)
	return n
}

// build builds a plugin with the compilers of this machine. If they are missing, it skips the test.
func build(t *testing.T, p *project.Project) project.Artifact {
	t.Helper()
	var printed bytes.Buffer
	a, err := project.NewBuilder(os.Environ(), &printed).Build(context.Background(), p)
	if missing, ok := errors.AsType[*project.MissingError](err); ok && os.Getenv("COMPILERS") != "required" {
		t.Skip(missing.Tool, " is not installed")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, &printed)
	}
	return a
}

// newHost creates a host for the plugins of a test.
func newHost(t *testing.T) *plugindev.Host {
	t.Helper()
	e, err := plugindev.NewEngine("")
	if err != nil {
		t.Fatal(err)
	}
	h, err := plugindev.NewHost(plugindev.Options{Engine: e})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(h.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// TestNativeCodeMatchesModule checks that plugins in Go have the same results as native code and as a module, in
// folders outside of the repository.
func TestNativeCodeMatchesModule(t *testing.T) {
	if testing.Short() {
		t.Skip("runs compilers")
	}
	for _, kind := range project.Kinds {
		t.Run(kind, func(t *testing.T) {
			p := newProject(t, project.Template{Name: "mine", Language: "go", Kind: kind, Version: "v1"})
			a := build(t, p)
			module := plugindev.Module{Name: p.Name, Wasm: []byte(read(t, a.Path))}
			var printed bytes.Buffer
			tested := testNative(t, p, module, buildNative(t, p, time.Minute, &printed))
			for _, vector := range tested {
				for _, f := range vector.Failures {
					t.Errorf("%s: %s: %s", vector.Name, f.Where, f.Text)
				}
			}
			if len(tested) == 0 || printed.Len() > 0 {
				t.Errorf("got %d vectors and output %q, want vectors and no output", len(tested), &printed)
			}
			if kind == "provider" {
				testNativeFailures(t, p, module)
			}
		})
	}
}

func testNative(t *testing.T, p *project.Project, m plugindev.Module, n *plugindev.Native) []plugindev.Tested {
	t.Helper()
	suite, err := plugindev.OpenSuite(p.Vectors())
	if err != nil {
		t.Fatal(err)
	}
	tested, err := suite.Test(t.Context(), newHost(t), m, plugindev.TestOptions{Native: n})
	if err != nil {
		t.Fatal(err)
	}
	return tested
}

// testNativeFailures checks the reports of failures that occur only in a provider's native code. The code reads the
// kind of failure from a file.
func testNativeFailures(t *testing.T, p *project.Project, module plugindev.Module) {
	file, failureFile := filepath.Join(p.Dir, "plugin.go"), filepath.Join(t.TempDir(), "failure")
	source := read(t, file)
	source = strings.Replace(source, "import (\n", "import (\n\t\"os\"\n", 1)
	source = strings.Replace(source, "\tr.SetPath(", "\tmayFail(r)\n\tr.SetPath(", 1) + `
func mayFail(r *provider.Request) {
	switch failure, _ := os.ReadFile("` + failureFile + `"); string(failure) {
	case "difference":
		r.SetText("/other", []byte("x"))
	case "panic":
		var none []int
		_ = none[len(r.Target)] // panics
	case "exit":
		println("bye")
		os.Exit(3)
	case "hang":
		for {
			os.Getpid()
		}
	case "deadlock":
		select {}
	}
}
`
	write(t, file, source)
	line := 1 + strings.Count(source[:strings.Index(source, "// panics")], "\n")
	var printed bytes.Buffer
	n := buildNative(t, p, time.Minute, &printed)
	for _, test := range []struct {
		failure string
		timeout time.Duration
		want    []string
	}{
		{"difference", time.Minute, []string{"differs from the module\n"}},
		{"panic", time.Minute, []string{"panic: runtime error: index out of range [", fmt.Sprintf("main.mayFail\n\t%s:%d\nmain.(*echo).Request\n", file, line)}},
		{"exit", time.Minute, []string{"Request: the plugin's process has ended: exit status 3\nbye\n"}},
		{"deadlock", time.Minute, []string{"signal: aborted", "all goroutines are asleep", "main.mayFail"}},
		{"hang", 3 * time.Second, []string{"Request has not returned within 3s; the plugin's process was ended\n", "main.mayFail"}},
	} {
		t.Run(test.failure, func(t *testing.T) {
			write(t, failureFile, test.failure)
			n := &plugindev.Native{Program: n.Program, Timeout: test.timeout, Output: &printed}
			defer n.Close()
			var failures strings.Builder
			for _, v := range testNative(t, p, module, n) {
				for _, f := range v.Failures {
					if failures.WriteString(f.Text + "\n"); f.Where != "native code" {
						t.Errorf("got failure of %s, want only of native code: %s", f.Where, f.Text)
					}
				}
			}
			for _, want := range test.want {
				if !strings.Contains(failures.String(), want) {
					t.Errorf("failures lack %q:\n%s", want, &failures)
				}
			}
		})
	}
	if !strings.Contains(printed.String(), "bye\n") {
		t.Errorf("got output %q, want it to contain bye", &printed)
	}
}

func TestNativeRejectsOldKit(t *testing.T) {
	p := newProject(t, goProvider)
	if err := os.Remove(filepath.Join(p.Dir, "sdk", "native", "serve.go")); err != nil {
		t.Fatal(err)
	}
	err := project.NewBuilder(os.Environ(), os.Stderr).BuildNative(t.Context(), p, filepath.Join(t.TempDir(), "native"), false)
	if !errors.Is(err, project.ErrOldKit) {
		t.Errorf("got error %v, want %v", err, project.ErrOldKit)
	}
}
