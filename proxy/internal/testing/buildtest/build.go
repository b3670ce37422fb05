// Package buildtest runs go build for tests: plugins as modules, and the sluice binary.
//
// Outputs are in a folder below the user's cache folder that test processes share, and are only built again if they are
// out of date. The package imports neither the gateway nor the WebAssembly engine, so tests of the binary do not link
// them. Every build has a deadline, and its error names the step that exceeded it.
//
// All functions may be called from any goroutine. A lock file keeps two processes from building the same program at
// once.
package buildtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Timeout bounds a build, including the wait for another process that builds the same program. It is long enough for a
// cold build cache on a busy machine.
const Timeout = 5 * time.Minute

// A Job is a program to build.
type Job struct {
	Dir  string   // folder of the program's main package
	Name string   // file name of the output
	Args []string // arguments of go build, except -o and the package
	Env  []string // added to the environment

	// Inputs are files and folders that the output depends on, besides those of the program's packages.
	Inputs []string

	// Transform rewrites the output of go build. nil keeps it.
	Transform func([]byte) ([]byte, error)
}

// Guest returns the job that compiles a plugin in Go, without optimising it. dir is the folder of its main package, and
// goflags is the value of GOFLAGS.
func Guest(dir, goflags string) Job {
	return Job{
		Dir: dir, Name: "plugin.wasm",
		Args: []string{"-trimpath", "-buildmode=c-shared", "-ldflags=-s -w"},
		Env:  []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=" + goflags},
	}
}

// state describes a complete output.
type state struct {
	Inputs []string // folders and embedded files of the program's packages, except for the standard library
	Sum    string   // hash of everything that the output depends on
}

// Run builds the program, unless the output of an earlier build is up to date, and returns the path of the output. It
// reads everything that the output depends on through package os, so that go test does not reuse a cached result after
// a change.
func (j *Job) Run() (path string, err error) {
	key, err := json.Marshal([]any{j.Dir, j.Args, j.Env})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(key)
	out, err := CacheDir(filepath.Join("built", hex.EncodeToString(sum[:8])))
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), Timeout, fmt.Errorf("not done within %s", Timeout))
	defer cancel()
	unlock, err := lock(ctx, filepath.Join(out, "lock"))
	if err != nil {
		return "", fmt.Errorf("wait for another process to build %s: %w", j.Dir, err)
	}
	defer unlock()

	path, file := filepath.Join(out, j.Name), filepath.Join(out, "state.json")
	var last state
	if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &last) == nil && last.Sum != "" {
		if sum, err := j.sum(last.Inputs); err == nil && sum == last.Sum {
			if _, err := os.Stat(path); err == nil {
				return path, nil
			}
		}
	}
	_ = os.Remove(file)
	next := state{}
	list, err := j.run(ctx, "list", "-deps", "-f", packageFiles)
	if err != nil {
		return "", err
	}
	next.Inputs = slices.DeleteFunc(strings.Split(string(list), "\n"), func(s string) bool { return strings.TrimSpace(s) == "" })
	// Compute the hash before the build, so that a file that changes during the build makes the output out of date.
	if next.Sum, err = j.sum(next.Inputs); err != nil {
		return "", err
	}
	if err := j.build(ctx, path); err != nil {
		return "", err
	}
	data, err := json.Marshal(&next)
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(file, data, 0o600)
}

func (j *Job) build(ctx context.Context, path string) error {
	if j.Transform == nil {
		_, err := j.run(ctx, append(append([]string{"build"}, j.Args...), "-o", path, ".")...)
		return err
	}
	built := path + ".built"
	if _, err := j.run(ctx, append(append([]string{"build"}, j.Args...), "-o", built, ".")...); err != nil {
		return err
	}
	data, err := os.ReadFile(built)
	if err != nil {
		return err
	}
	if data, err = j.Transform(data); err != nil {
		return err
	}
	if err := os.WriteFile(built, data, 0o600); err != nil {
		return err
	}
	return os.Rename(built, path)
}

// packageFiles is a template that lists the folders of packages, and their embedded files, which may be in other
// folders.
const packageFiles = `{{if not .Standard}}{{$dir := .Dir}}{{$dir}}{{range .EmbedFiles}}
{{$dir}}/{{.}}{{end}}{{end}}`

// run runs the go command in the program's folder and returns its standard output.
func (j *Job) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = j.Dir, append(os.Environ(), j.Env...)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return nil, fmt.Errorf("go %s in %s: %w\n%s", args[0], j.Dir, err, &stderr)
	}
	return stdout.Bytes(), nil
}

// sum returns a hash of the names, sizes and modification times of all files that the output depends on.
func (j *Job) sum(packages []string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version())
	add := func(path string) error {
		info, err := os.Stat(path)
		if err == nil {
			fmt.Fprintln(h, path, info.Size(), info.ModTime().UnixNano())
		}
		return err
	}
	root, err := ModuleRoot(j.Dir)
	if err != nil {
		return "", err
	}
	inputs := append([]string{filepath.Join(root, "go.mod"), filepath.Join(root, "go.sum")}, j.Inputs...)
	for _, path := range append(inputs, packages...) {
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		if !info.IsDir() {
			if err := add(path); err != nil {
				return "", err
			}
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			if e.IsDir() || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			if err := add(filepath.Join(path, e.Name())); err != nil {
				return "", err
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// ModuleRoot returns the folder of the go.mod at or above a folder.
func ModuleRoot(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the folder of the test")
		}
		dir = parent
	}
}

// CacheDir returns a folder below the user's cache folder, for files that test processes share. Other users cannot
// write there.
func CacheDir(name string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "sluice-plugintest", name)
	return dir, os.MkdirAll(dir, 0o700)
}
