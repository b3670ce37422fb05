package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/config/importer"
)

// maxImport limits the size of a foreign configuration that is read.
const maxImport = 16 << 20

func newImportCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "import",
		Short: "Translate the configuration of another gateway",
		Long: "Translate the configuration of another gateway to a gateway.toml. Each member of the file is translated, or has a comment\n" +
			"with its line that says what has become of it and what to do instead. Credentials are not copied: they become variables,\n" +
			"which the first lines of the result list. `sluice check` accepts the result once they are set.",
	},
		newImportFromCommand("litellm", "config.yaml", "LiteLLM proxy", importer.LiteLLM),
		newImportFromCommand("bifrost", "config.json", "Bifrost gateway", importer.Bifrost))
}

// newImportFromCommand returns the command that translates the configuration of a program; file is how it is usually
// named.
func newImportFromCommand(name, file, program string, translate func([]byte) (*importer.Result, error)) *cobra.Command {
	var out string
	force := false
	c := &cobra.Command{
		Use:   name + " FILE",
		Short: "Translate a configuration of a " + program,
		Long: "Translate the " + file + " of a " + program + " to a gateway.toml, and print it or write it to a file. FILE may be - for\n" +
			"standard input. Keys, teams and models that the program keeps in its database are not in the file.",
		Example: "  sluice import " + name + " " + file + "\n  sluice import " + name + " " + file + " -o " + name + ".toml",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return newUsageError(c, "`%s` takes one FILE", c.CommandPath())
			}
			data, err := readForeign(c, args[0])
			if err != nil {
				return err
			}
			r, err := translate(data)
			if err != nil {
				return readError{fmt.Errorf("%s: %w", args[0], err)}
			}
			if out == "" {
				_, err = io.WriteString(c.OutOrStdout(), r.Text)
				return err
			}
			return writeNew(c, out, r.Text, force)
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "write this `file` instead of standard output")
	c.Flags().BoolVar(&force, "force", false, "overwrite the file if it exists")
	return c
}

func readForeign(c *cobra.Command, name string) ([]byte, error) {
	in := c.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxImport+1))
	if err == nil && len(data) > maxImport {
		err = fmt.Errorf("%s is larger than %d MiB", name, maxImport>>20)
	}
	return data, err
}

// writeNew writes a file that must not exist unless force is set.
func writeNew(c *cobra.Command, name, text string, force bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if !force {
		flags |= os.O_EXCL
	}
	f, err := os.OpenFile(name, flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; overwrite it with --force", name)
	}
	if err != nil {
		return err
	}
	if _, err = io.WriteString(f, text); err == nil {
		err = f.Close()
	} else {
		f.Close()
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "wrote %s; the variables that it needs are listed at its beginning\n", name)
	return err
}
