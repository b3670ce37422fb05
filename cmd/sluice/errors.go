package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
)

// The exit codes.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitInvalid = 3 // the configuration, or a plugin that it uses, is not usable
)

// unreadableError is a configuration that could not be read at all.
type unreadableError struct{ error }

// exitCode says how the process ends.
func exitCode(err error) int {
	var usage usageError
	var unreadable unreadableError
	var invalid config.Errors
	var build *proxy.BuildError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &unreadable), errors.As(err, &invalid), errors.As(err, &build):
		return exitInvalid
	}
	return exitFailed
}

// describe is an error as a person reads it. What carries its place in the configuration stands for itself.
func describe(err error) string {
	var invalid config.Errors
	if errors.As(err, &invalid) {
		return fmt.Sprintf("%v\n%s", invalid, count(len(invalid), "error"))
	}
	missing, others := sortOut(err)
	var lines []string
	for _, e := range others {
		if _, placed := errors.AsType[config.Error](e); placed {
			lines = append(lines, e.Error())
			continue
		}
		lines = append(lines, "sluice: "+e.Error())
	}
	if len(missing) > 0 {
		lines = append(lines, "sluice: "+notBuiltIn(missing), "Run `make build`, which builds the plugins, and then bin/sluice with them in it.")
	}
	return strings.Join(lines, "\n")
}

// problems are the same words one by one, for a log.
func problems(err error) (texts []string) {
	missing, others := sortOut(err)
	for _, e := range others {
		texts = append(texts, e.Error())
	}
	if len(missing) > 0 {
		texts = append(texts, notBuiltIn(missing))
	}
	return texts
}

func notBuiltIn(plugins []string) string {
	return "this binary was built without the plugins that it should hold (" + strings.Join(plugins, ", ") + ")"
}

// sortOut takes joined errors apart: the names of the plugins that are not built in, and the other errors.
func sortOut(err error) (missing []string, others []error) {
	switch e := err.(type) {
	case *proxy.NoPluginError:
		return []string{e.Plugin}, nil
	case *proxy.BuildError:
		return sortOut(e.Err)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			m, o := sortOut(one)
			missing, others = append(missing, m...), append(others, o...)
		}
		slices.Sort(missing)
		return missing, others
	}
	return nil, []error{err}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
