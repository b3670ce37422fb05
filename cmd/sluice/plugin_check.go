package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
)

func newPluginCheckCommand(o *options) *cobra.Command {
	f := &pluginFlags{}
	c := &cobra.Command{
		Use:   "check [FILE|DIR]",
		Short: "Check a plugin's module",
		Long: "Load a plugin as the gateway does, and print its exports and imports, its version of the plugin ABI, memory and options,\n" +
			"how much of the fuel budget its vectors use, and the tables to add to gateway.toml. The argument is the folder of a plugin\n" +
			"that was built, a module's file, or the name of a built-in plugin.\n\n" +
			"The exit code is 0 if the gateway would accept the plugin and its vectors pass, 1 if a vector fails, and 3 if the gateway\n" +
			"would reject the plugin, with the error that `sluice check` reports.",
		Example: "  sluice plugin check\n  sluice plugin check plugin.wasm",
		Args:    atMostOneArgument("FILE or DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := f.open(c, subjectArgument(args))
			if err != nil {
				return err
			}
			h, closed, err := o.host()
			if err != nil {
				return err
			}
			defer closed()
			r, err := plugindev.Check(c.Context(), h, s.module, s.suite)
			if err != nil {
				return invalidPlugin(err)
			}
			failed := printReport(c.OutOrStdout(), r)
			if s.file != "" {
				printTables(c.OutOrStdout(), s, r)
			}
			if failed > 0 {
				return fmt.Errorf("%s failed: see `sluice plugin test`", plural(failed, "vector"))
			}
			return nil
		},
	}
	f.register(c)
	return c
}

// printReport prints the report on a plugin, and returns the number of its vectors that failed.
func printReport(w io.Writer, r *plugindev.Report) (failed int) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("plugin", "%s", r.Kind)
	row("module", "%s, sha256 %s", formatSize(r.Size), r.SHA256)
	row("plugin ABI", "%s, the gateway's is %s", r.ABI, r.HostABI)
	row("memory", "%s per idle instance", formatSize(r.Memory))
	rows := func(name string, lines []string) {
		for i, line := range lines {
			row(map[bool]string{true: name}[i == 0], "%s", line)
		}
	}
	rows("exports", wrap(r.Exports, maxRow))
	for _, module := range slices.Sorted(maps.Keys(r.Imports)) {
		rows("imports", wrap(append([]string{module + ":"}, r.Imports[module]...), maxRow))
	}
	switch {
	case !r.Schema:
		row("options", "no schema: only the plugin checks them")
	case len(r.Options) == 0:
		row("options", "none")
	default:
		rows("options", r.Options)
	}
	for i := range r.Tested {
		if len(r.Tested[i].Failures) > 0 {
			failed++
		}
	}
	switch costliest := r.Costliest(); {
	case r.Rejected != nil:
		row("vectors", "not run, the plugin rejects their options: %v", r.Rejected)
	case costliest == nil:
		row("vectors", "none")
	default:
		row("vectors", "%d of %d pass; %s takes most: %s", len(r.Tested)-failed, len(r.Tested), costliest.Name, costText(costliest.Cost))
	}
	rows("warnings", r.Warnings)
	t.Flush()
	return failed
}

// maxRow is the width of a report's lists, in bytes.
const maxRow = 100

// wrap joins words with commas into lines of at most width bytes. A longer word gets a line of its own.
func wrap(words []string, width int) (lines []string) {
	line := ""
	for _, word := range words {
		switch {
		case line == "":
			line = word
		case len(line)+len(word) > width-2:
			lines, line = append(lines, line+","), word
		case strings.HasSuffix(line, ":"):
			line += " " + word
		default:
			line += ", " + word
		}
	}
	return append(lines, line)
}

// printTables prints the tables of a configuration that uses the plugin.
func printTables(w io.Writer, s *subject, r *plugindev.Report) {
	name, use := s.module.Name, s.suite.Use
	fmt.Fprintf(w, "\n[plugins.%s]\nfile   = %q\nsha256 = %q\n", name, filepath.Base(s.file), r.SHA256)
	switch {
	case r.Provider:
		fmt.Fprintf(w, "\n[providers.%s]\nplugin   = %q\nbase_url = \"https://…\"\n", name, name)
		for _, list := range []struct {
			key    string
			values []string
		}{{"paths   ", use.Paths}, {"headers ", use.Headers}} {
			if len(list.values) > 0 {
				text, _ := json.Marshal(list.values)
				fmt.Fprintf(w, "%s = %s\n", list.key, text)
			}
		}
	case r.Router:
		fmt.Fprintf(w, "\n[router]\nplugin = %q\n", name)
	default:
		fmt.Fprintf(w, "\n[[filters]]\nplugin   = %q\non       = [\"request\", \"response\"]\n", name)
	}
	var options map[string]any
	if json.Unmarshal([]byte(cmp.Or(use.Settings, "{}")), &options) != nil || len(options) == 0 {
		return
	}
	if !r.Router {
		fmt.Fprintf(w, "options  = %s\n", formatTOML(options))
		return
	}
	for _, key := range slices.Sorted(maps.Keys(options)) {
		fmt.Fprintf(w, "%s = %s\n", formatKey(key), formatTOML(options[key]))
	}
}

// formatTOML formats a value that was decoded from JSON as TOML, on one line.
func formatTOML(value any) string {
	var parts []string
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if v[key] != nil { // TOML has no null
				parts = append(parts, formatKey(key)+" = "+formatTOML(v[key]))
			}
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	case []any:
		for _, element := range v {
			parts = append(parts, formatTOML(element))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	text, _ := json.Marshal(value)
	return string(text)
}

// formatKey quotes a TOML key if it is not a bare key.
func formatKey(key string) string {
	const bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if key != "" && strings.Trim(key, bare) == "" {
		return key
	}
	return formatTOML(key)
}
