package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// usageError is a command line that makes no sense.
type usageError struct{ error }

func usage(c *cobra.Command, format string, args ...any) error {
	return usageError{fmt.Errorf(format+"\nTry `%s --help`", append(args, c.CommandPath())...)}
}

// group makes a command of which only the subcommands do something: by itself it prints its help.
func group(c *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	c.SuggestionsMinimumDistance = 2
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(c, args[0])
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(subcommands...)
	return c
}

// unknownCommand says which subcommands there are.
func unknownCommand(c *cobra.Command, name string) error {
	guess := ""
	if near := c.SuggestionsFor(name); len(near) > 0 {
		guess = ", did you mean " + strings.Join(near, " or ") + "?"
	}
	var known []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	return usage(c, "unknown command %q%s\n`%s` has: %s", name, guess, c.CommandPath(), strings.Join(known, ", "))
}

// flagError says which flags there are where one is unknown.
func flagError(c *cobra.Command, err error) error {
	// The flags of a command that does not exist are no more unknown than the command.
	if c.HasSubCommands() && c.Flags().NArg() > 0 {
		return unknownCommand(c, c.Flags().Arg(0))
	}
	if !strings.HasPrefix(err.Error(), "unknown ") {
		text, _, _ := strings.Cut(err.Error(), ": strconv.")
		return usage(c, "%s", text)
	}
	return usage(c, "%w\n\nFlags of `%s`:\n%s", err, c.CommandPath(), c.Flags().FlagUsages())
}

func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(c, "`%s` takes no arguments", c.CommandPath())
	}
	return nil
}

// usageText says how a command is used, as cobra does it, but that it does not say of a group that it can be run. It is
// no template, since those would link the whole of every package into the binary.
func usageText(c *cobra.Command) error {
	w := c.OutOrStderr()
	var b strings.Builder
	b.WriteString("Usage:")
	if c.Runnable() && !c.HasAvailableSubCommands() {
		b.WriteString("\n  " + c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n  " + c.CommandPath() + " [command]")
	}
	if c.HasExample() {
		b.WriteString("\n\nExamples:\n" + c.Example)
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n\nAvailable Commands:")
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
		b.WriteString("\n\nGlobal Flags:\n" + strings.TrimRight(c.InheritedFlags().FlagUsages(), "\n"))
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n\nUse \"" + c.CommandPath() + " [command] --help\" for more information about a command.")
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// helpCommand is cobra's own but for what it makes of a command that does not exist.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Say what a command does",
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 && c.HasSubCommands() {
				return unknownCommand(c, rest[0])
			}
			c.InitDefaultHelpFlag()
			c.InitDefaultVersionFlag()
			return c.Help()
		},
	}
}
