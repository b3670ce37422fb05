package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/config"
)

func newKeysCommand(o *options) *cobra.Command {
	return group(&cobra.Command{
		Use:   "keys",
		Short: "Generate and rotate client keys",
		Long:  "Generate the keys that clients authenticate with, and replace them.",
	}, newKeysNewCommand(), &cobra.Command{
		Use:   "rotate NAME",
		Short: "Replace a key without interrupting its clients",
		Long: "Generate another secret for a key of the configuration and print it once, followed by the two changes of gateway.toml\n" +
			"that replace the old secret: first both are accepted, and once all clients have the new one, only that. The key keeps\n" +
			"its name, and with it its limits, its budgets and what it has stored. Nothing is changed by the command itself.",
		Example: "  sluice keys rotate team-a",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return newUsageError(c, "`%s` takes the name of a key", c.CommandPath())
			}
			cfg, err := o.load("")
			if err != nil {
				return err
			}
			i := slices.IndexFunc(cfg.Keys, func(k config.Key) bool { return k.Name == args[0] })
			if i < 0 {
				return newUsageError(c, "no key in %s is named %q", cfg.Path, args[0])
			}
			secret, digest := config.NewKey()
			k := &cfg.Keys[i]
			old := k.Digests
			if len(old) == 0 {
				old = []config.KeyDigest{{Digest: k.Digest}}
			}
			var both []string
			for _, d := range old {
				text := fmt.Sprintf("%q", "sha256:"+hex.EncodeToString(d.Digest[:]))
				if !d.Expires.IsZero() {
					text = fmt.Sprintf("{ digest = %s, expires = %s }", text, d.Expires.UTC().Format(time.RFC3339))
				}
				both = append(both, text)
			}
			both = append(both, fmt.Sprintf("%q", digest))
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n\n# The new secret of %s above is shown only once. In gateway.toml, replace its secret, digest or digests,\n"+
				"# now, by\ndigests = [%s]\n\n# and once all clients have the new secret, by\ndigest = %q\n",
				secret, args[0], strings.Join(both, ", "), digest)
			return err
		},
	})
}

func newKeysNewCommand() *cobra.Command {
	var team string
	c := &cobra.Command{
		Use:   "new [NAME]",
		Short: "Generate a key",
		Long: "Generate a client key and print it once, followed by the lines for gateway.toml that accept it. They contain only\n" +
			"the key's digest, from which the key cannot be recovered.",
		Example: "  sluice keys new team-a\n  sluice keys new ana --team research",
		RunE: func(c *cobra.Command, args []string) error {
			name := "client"
			switch {
			case len(args) > 1:
				return newUsageError(c, "`%s` takes one name", c.CommandPath())
			case len(args) == 1:
				name = args[0]
			}
			secret, digest := config.NewKey()
			lines, teams := fmt.Sprintf("[[keys]]\nname   = %q\ndigest = %q\nmodels = [\"*\"]\n", name, digest), ""
			if team != "" {
				lines += fmt.Sprintf("team   = %q\n", team)
				teams = fmt.Sprintf("[[teams]]\nname = %q\n", team)
			}
			// Parsing the lines checks the names.
			_, err := config.Parse("", []byte(teams+lines), config.Options{})
			if invalid, ok := errors.AsType[config.Errors](err); ok {
				return newUsageError(c, "%s", invalid[0].Text)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n\n# The key above is shown only once. Add to gateway.toml:\n%s", secret, lines)
			return err
		},
	}
	c.Flags().StringVar(&team, "team", "", "`name` of the team that the key belongs to, one of [[teams]]")
	return c
}
