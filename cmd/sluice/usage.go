package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// usageError is a command line that cannot be run.
type usageError struct{ error }

func newUsageError(c *cobra.Command, format string, args ...any) error {
	return usageError{fmt.Errorf(format+"\nTry `%s --help`", append(args, c.CommandPath())...)}
}

// group turns c into a command that only has subcommands: run by itself it prints its help.
func group(c *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	c.SuggestionsMinimumDistance = 2
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommandError(c, args[0])
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(subcommands...)
	return c
}

// runs reports whether a command does something without a subcommand. Groups only print their help; a command with
// subcommands that runs has arguments in its usage line.
func runs(c *cobra.Command) bool {
	return c.Runnable() && (!c.HasAvailableSubCommands() || strings.Contains(c.Use, " "))
}

// unknownCommandError suggests similar subcommands and lists all.
func unknownCommandError(c *cobra.Command, name string) error {
	suggestion := ""
	if near := c.SuggestionsFor(name); len(near) > 0 {
		suggestion = ", did you mean " + strings.Join(near, " or ") + "?"
	}
	var known []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	return newUsageError(c, "unknown command %q%s\nCommands of `%s`: %s", name, suggestion, c.CommandPath(), strings.Join(known, ", "))
}

// flagError adds the list of flags to the error about an unknown flag.
func flagError(c *cobra.Command, err error) error {
	// Flags are parsed before arguments, so the flags of an unknown subcommand are unknown as well. Report the
	// subcommand.
	if unknown := c.ValidateArgs(c.Flags().Args()); c.HasSubCommands() && unknown != nil {
		return unknown
	}
	if !strings.HasPrefix(err.Error(), "unknown ") {
		text, _, _ := strings.Cut(err.Error(), ": strconv.")
		return newUsageError(c, "%s", text)
	}
	return newUsageError(c, "%w\n\nFlags of `%s`:\n%s", err, c.CommandPath(), c.Flags().FlagUsages())
}

func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return newUsageError(c, "`%s` takes no arguments", c.CommandPath())
	}
	return nil
}

// printUsage prints the same as cobra's usage template, except that a group is not shown as runnable. It is not a
// template because text/template keeps the linker from removing unused exported methods.
func printUsage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:")
	if runs(c) {
		b.WriteString("\n  " + c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n  " + c.CommandPath() + " [command]")
	}
	if c.HasExample() {
		b.WriteString("\n\nExamples:\n" + c.Example)
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n\nCommands:")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(&b, "\n  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	if c.HasAvailableLocalFlags() {
		b.WriteString("\n\nFlags:\n" + strings.TrimRight(c.LocalFlags().FlagUsages(), "\n"))
	}
	if c.HasAvailableInheritedFlags() {
		b.WriteString("\n\nGlobal flags:\n" + strings.TrimRight(c.InheritedFlags().FlagUsages(), "\n"))
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n\nUse \"" + c.CommandPath() + " [command] --help\" for more about a command.")
	}
	b.WriteByte('\n')
	_, err := io.WriteString(c.OutOrStderr(), b.String())
	return err
}

// newHelpCommand returns a help command that differs from cobra's in its error for an unknown command.
func newHelpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 && c.HasSubCommands() {
				return unknownCommandError(c, rest[0])
			}
			c.InitDefaultHelpFlag()
			c.InitDefaultVersionFlag()
			return c.Help()
		},
	}
}
