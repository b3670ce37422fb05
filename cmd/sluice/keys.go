package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/config"
)

func newKeysCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "keys",
		Short: "Generate client keys",
		Long:  "Generate the keys that clients authenticate with.",
	}, &cobra.Command{
		Use:   "new [NAME]",
		Short: "Generate a key",
		Long: "Generate a client key and print it once, followed by the lines for gateway.toml that accept it. They contain only\n" +
			"the key's digest, from which the key cannot be recovered.",
		Example: "  sluice keys new team-a",
		RunE: func(c *cobra.Command, args []string) error {
			name := "client"
			switch {
			case len(args) > 1:
				return newUsageError(c, "`%s` takes one name", c.CommandPath())
			case len(args) == 1:
				name = args[0]
			}
			secret, digest := config.NewKey()
			lines := fmt.Sprintf("[[keys]]\nname   = %q\ndigest = %q\nmodels = [\"*\"]\n", name, digest)
			// Parsing the lines checks the name.
			_, err := config.Parse("", []byte(lines), config.Options{})
			if invalid, ok := errors.AsType[config.Errors](err); ok {
				return newUsageError(c, "%s", invalid[0].Text)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n\n# The key above is shown only once. Add to gateway.toml:\n%s", secret, lines)
			return err
		},
	})
}
