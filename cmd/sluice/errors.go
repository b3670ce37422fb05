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
	exitFailure = 1
	exitUsage   = 2
	exitInvalid = 3 // invalid configuration or plugin
)

// readError is a configuration file that could not be read.
type readError struct{ error }

func exitCode(err error) int {
	var usage usageError
	var read readError
	var invalid config.Errors
	var build *proxy.BuildError
	var failed failedVectors
	switch {
	case errors.As(err, &failed):
		return min(int(failed), maxFailedVectors)
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &read), errors.As(err, &invalid), errors.As(err, &build):
		return exitInvalid
	}
	return exitFailure
}

// formatError formats an error for standard error. Errors with a position in the configuration get no prefix.
func formatError(err error) string {
	var invalid config.Errors
	if errors.As(err, &invalid) {
		return fmt.Sprintf("%v\n%s", invalid, plural(len(invalid), "error"))
	}
	missing, others := splitError(err)
	var lines []string
	for _, e := range others {
		if _, positioned := errors.AsType[config.Error](e); positioned {
			lines = append(lines, e.Error())
			continue
		}
		lines = append(lines, "sluice: "+e.Error())
	}
	if len(missing) > 0 {
		lines = append(lines, "sluice: "+missingPlugins(missing), "Run `make build` to build the plugins and a bin/sluice that contains them.")
	}
	return strings.Join(lines, "\n")
}

// errorTexts returns the texts of joined errors one by one, for the log.
func errorTexts(err error) (texts []string) {
	missing, others := splitError(err)
	for _, e := range others {
		texts = append(texts, e.Error())
	}
	if len(missing) > 0 {
		texts = append(texts, missingPlugins(missing))
	}
	return texts
}

func missingPlugins(plugins []string) string {
	return "this binary was built without its bundled plugins (" + strings.Join(plugins, ", ") + ")"
}

// splitError takes joined errors apart: the names of bundled plugins that this binary lacks, sorted, and the other
// errors.
func splitError(err error) (missing []string, others []error) {
	switch e := err.(type) {
	case *proxy.NoPluginError:
		return []string{e.Plugin}, nil
	case *proxy.BuildError:
		return splitError(e.Err)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			m, o := splitError(inner)
			missing, others = append(missing, m...), append(others, o...)
		}
		slices.Sort(missing)
		return missing, others
	}
	return nil, []error{err}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
