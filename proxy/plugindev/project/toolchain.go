package project

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// MissingError reports a compiler that is not installed.
type MissingError struct {
	Tool  string
	Found []string // installed programs that are not suitable, with the reason
	Get   []string // commands or pages to install it
}

func (e *MissingError) Error() string {
	var b strings.Builder
	b.WriteString(e.Tool + " is not installed\n")
	for _, found := range e.Found {
		b.WriteString("  found " + found + "\n")
	}
	b.WriteString("Install it with one of:")
	for _, way := range e.Get {
		b.WriteString("\n  " + way)
	}
	return b.String()
}

// getenv returns the value of a variable in Environ. The last occurrence counts.
func (b *Builder) getenv(name string) (value string) {
	for _, v := range b.Environ {
		if text, ok := strings.CutPrefix(v, name+"="); ok {
			value = text
		}
	}
	return value
}

// find returns the programs with this name in PATH and in the usual installation directories, each once.
func (b *Builder) find(name string) []string { return findIn(name, b.path()) }

// path returns the directories in which programs are searched.
func (b *Builder) path() []string { return append(filepath.SplitList(b.getenv("PATH")), b.dirs...) }

func findIn(name string, dirs []string) (found []string) {
	seen := map[string]bool{}
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			continue // never run a program from the current folder
		}
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			continue
		}
		// Return the link and not its target, because rustup's proxies depend on the name by which they are called.
		target, err := filepath.EvalSymlinks(path)
		if err != nil || seen[target] {
			continue
		}
		seen[target] = true
		found = append(found, path)
	}
	return found
}

// findVersions returns the programs of find, followed by programs with a version in their name, such as clang-19, the
// highest first.
func (b *Builder) findVersions(name string) []string {
	found, versions := b.find(name), map[int]string{}
	for _, dir := range b.path() {
		paths, _ := filepath.Glob(filepath.Join(dir, name+"-*"))
		for _, path := range paths {
			_, suffix, _ := strings.Cut(filepath.Base(path), name+"-")
			if n, err := strconv.Atoi(suffix); err == nil && versions[n] == "" && filepath.IsAbs(dir) {
				versions[n] = path
			}
		}
	}
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(versions))) {
		found = append(found, versions[n])
	}
	return found
}

// print runs a program in the plugin's folder and returns its output, without leading and trailing white space.
func (b *Builder) print(ctx context.Context, p *Project, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = p.Dir, b.environ()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// compile runs a compiler in the plugin's folder. Its output goes to Output.
func (b *Builder) compile(ctx context.Context, p *Project, compiler string, args ...string) error {
	cmd := exec.CommandContext(ctx, compiler, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.Dir, b.environ(), b.Output, b.Output
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%s: %v", compiler, exit.ProcessState)
	}
	return err
}

// environ returns Environ with variables that keep compilers from downloading, and that override settings of Go in the
// author's environment: another target, GOFLAGS, and a workspace that does not contain the folder.
func (b *Builder) environ() []string {
	return append(append(slices.Clone(b.Environ),
		"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOPROXY=off", "GOFLAGS=", "GOWORK=off", "RUSTUP_AUTO_INSTALL=0"), b.target...)
}
