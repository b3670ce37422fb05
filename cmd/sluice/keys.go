package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/config"
)

func keysCommand() *cobra.Command {
	return group(&cobra.Command{Use: "keys", Short: "Make keys for clients"}, &cobra.Command{
		Use:   "new [NAME]",
		Short: "Make a key",
		Long: "Make a key and print it, once, with the lines for gateway.toml that let it in. The file holds only the key's\n" +
			"digest, from which the key cannot be had back.",
		Example: "  sluice keys new team-a",
		RunE: func(c *cobra.Command, args []string) error {
			name := "client"
			switch {
			case len(args) > 1:
				return usage(c, "`%s` takes one name", c.CommandPath())
			case len(args) == 1:
				name = args[0]
			}
			secret, digest := config.NewKey()
			lines := fmt.Sprintf("[[keys]]\nname   = %q\ndigest = %q\nmodels = [\"*\"]\n", name, digest)
			// What is printed must be what the gateway takes.
			_, err := config.Parse("", []byte(lines), config.Options{})
			if invalid, ok := errors.AsType[config.Errors](err); ok {
				return usage(c, "%s", invalid[0].Text)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n\n# The key above is shown this once. Into gateway.toml:\n%s", secret, lines)
			return err
		},
	})
}
