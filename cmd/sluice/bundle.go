package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/config/fleet"
)

func newBundleCommand(o *options) *cobra.Command {
	return group(&cobra.Command{
		Use:   "bundle",
		Short: "Roll out a configuration to many gateways",
		Long: "Sign configurations, push them to an OCI registry, and say which gateways run which of them. A bundle is the part of a\n" +
			"configuration that gateways share: keys, plugins by digest, providers, models and so on, without secrets. A rollout is a\n" +
			"document at a tag, which gateways follow: it names the bundle of all, the next one, and the stages in which they get it.\n" +
			"Both are signed, with keys and signatures in the format of minisign.\n\n" +
			"A gateway follows a rollout if its configuration has [bundle]; /status and the status page show\n" +
			"which bundle it runs.",
		Example: "  sluice bundle keygen fleet.key\n" +
			"  sluice bundle push oci://registry.example.com/acme/fleet:v2 bundle.toml --key fleet.key\n" +
			"  sluice bundle rollout oci://registry.example.com/acme/fleet:prod --next v2 --stage tag:canary --stage 50%+1h --key fleet.key",
	}, newBundleKeygenCommand(), newBundleSignCommand(), newBundlePushCommand(o), newBundleRolloutCommand(o), newBundleInspectCommand(o), newBundleDiffCommand(o), newBundlePullCommand(o))
}

func newBundleKeygenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "keygen FILE",
		Short: "Generate a key that signs bundles",
		Long: "Generate a key that signs bundles and rollouts, write it to FILE and its public key to FILE.pub, and print the line of\n" +
			"gateway.toml with which gateways accept it. The key has no password: keep the file where only the publisher reads it. Keys\n" +
			"of `minisign -G -W` work as well.",
		Example: "  sluice bundle keygen fleet.key",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return newUsageError(c, "`%s` takes one FILE", c.CommandPath())
			}
			key, err := fleet.NewSecretKey()
			if err != nil {
				return err
			}
			if err := createSecret(args[0], key.File()); err != nil {
				return err
			}
			if err := os.WriteFile(args[0]+".pub", []byte(key.Public().File()), 0o644); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "keys = [%q]\n", key.Public())
			return err
		},
	}
}

// createSecret writes a file that does not exist yet.
func createSecret(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close())
}

// signer is the flag --key of commands that sign.
type signer struct{ file string }

func (s *signer) register(c *cobra.Command) {
	c.Flags().StringVar(&s.file, "key", "", "`file` of the key that signs, from sluice bundle keygen")
}

func (s *signer) open(c *cobra.Command) (key fleet.SecretKey, err error) {
	if s.file == "" {
		return key, newUsageError(c, "--key is missing")
	}
	data, err := os.ReadFile(s.file)
	if err == nil {
		if key, err = fleet.ParseSecretKey(string(data)); err != nil {
			err = fmt.Errorf("%s %w", s.file, err)
		}
	}
	return key, err
}

// readBundle reads and checks the text of a bundle. Warnings are printed.
func readBundle(c *cobra.Command, file string) ([]byte, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	cfg, err := config.CheckBundle(file, content, config.Options{Bundled: plugins.Names()})
	if err != nil {
		return nil, err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(c.ErrOrStderr(), "%v (warning)\n", w)
	}
	return content, nil
}

func newBundleSignCommand() *cobra.Command {
	s := &signer{}
	c := &cobra.Command{
		Use:   "sign FILE",
		Short: "Check and sign a bundle without pushing it",
		Long: "Check the text of a bundle as `sluice bundle push` does, and write its signature to FILE.minisig, which minisign -V\n" +
			"verifies.",
		Example: "  sluice bundle sign bundle.toml --key fleet.key\n  minisign -V -p fleet.key.pub -m bundle.toml",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return newUsageError(c, "`%s` takes one FILE", c.CommandPath())
			}
			key, err := s.open(c)
			if err != nil {
				return err
			}
			content, err := readBundle(c, args[0])
			if err != nil {
				return err
			}
			return os.WriteFile(args[0]+".minisig", fleet.SignBundle(content, key), 0o644)
		},
	}
	s.register(c)
	return c
}

func newBundlePushCommand(o *options) *cobra.Command {
	s := &signer{}
	c := &cobra.Command{
		Use:   "push oci://REGISTRY/REPOSITORY:TAG FILE",
		Short: "Check, sign and push a bundle",
		Long: "Check the text of a bundle, sign it, push it to a registry, and print its reference by digest. FILE is a configuration with\n" +
			"teams, keys, issuers, identities, plugins, providers, router, models and filters only. It names plugins by oci://… with a\n" +
			"digest, no files, and variables such as ${OPENAI_API_KEY} only in the auth of a provider, where each gateway fills in its\n" +
			"own. Gateways run a bundle only when a rollout names it.\n\n" +
			"The credential for the registry is that of [registries] in the configuration, if there is one.",
		Example: "  sluice bundle push oci://registry.example.com/acme/fleet:v2 bundle.toml --key fleet.key",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return newUsageError(c, "`%s` takes a reference and a FILE", c.CommandPath())
			}
			if err := fleet.CheckReference(args[0], true); err != nil {
				return newUsageError(c, "%s: %w", args[0], err)
			}
			key, err := s.open(c)
			if err != nil {
				return err
			}
			content, err := readBundle(c, args[1])
			if err != nil {
				return err
			}
			p, err := o.publisher(key.Public())
			if err != nil {
				return err
			}
			defer p.Close()
			pinned, err := p.PushBundle(c.Context(), args[0], content, key)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), pinned)
			return err
		},
	}
	s.register(c)
	return c
}

// publisher returns a Publisher with [registries] of the configuration.
func (o *options) publisher(keys ...fleet.PublicKey) (*fleet.Publisher, error) {
	cfg, err := o.loadRegistries()
	if err != nil {
		return nil, err
	}
	return fleet.NewPublisher(cfg, keys...), nil
}

func newBundleRolloutCommand(o *options) *cobra.Command {
	s := &signer{}
	var next, current string
	var stages []string
	var expires time.Duration
	c := &cobra.Command{
		Use:   "rollout oci://REGISTRY/REPOSITORY:TAG",
		Short: "Say which gateways run which bundle",
		Long: "Sign a rollout and push it to the tag that gateways follow. Gateways in a stage run the next bundle, on trial at first, and\n" +
			"all others the current one. A stage is tag:TAG or name:NODE, as in [bundle] of a gateway, or PERCENT%, by the hash of its\n" +
			"name. With +DURATION, it opens that long after the rollout was made. Without --stage, all gateways get the next bundle at\n" +
			"once. --next and --current are tags or digests in the same repository. Without --current, it is the bundle that the last\n" +
			"rollout gave to all.\n\n" +
			"To widen a rollout, make it again with more stages. To go back, make one whose --next is the older bundle. The sequence\n" +
			"number is one above that of the last rollout, so that gateways reject every older one.",
		Example: "  sluice bundle rollout oci://registry.example.com/acme/fleet:prod --next v2 --stage tag:canary --stage 100%+24h --key fleet.key\n" +
			"  sluice bundle rollout oci://registry.example.com/acme/fleet:prod --next v1 --key fleet.key",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 || next == "" {
				return newUsageError(c, "`%s` takes a reference, and --next", c.CommandPath())
			}
			if err := fleet.CheckReference(args[0], true); err != nil {
				return newUsageError(c, "%s: %w", args[0], err)
			}
			if expires < time.Minute {
				return newUsageError(c, "--expires must be at least 1m")
			}
			now := time.Now().UTC().Truncate(time.Second)
			r := &fleet.Rollout{Created: now, Expires: now.Add(expires)}
			if len(stages) == 0 {
				stages = []string{"100%"}
			}
			for _, text := range stages {
				stage, err := fleet.ParseStage(text)
				if err != nil {
					return newUsageError(c, "--stage %w", err)
				}
				r.Stages = append(r.Stages, stage)
			}
			key, err := s.open(c)
			if err != nil {
				return err
			}
			p, err := o.publisher(key.Public())
			if err != nil {
				return err
			}
			defer p.Close()
			for _, b := range []struct{ text, digest *string }{{&next, &r.Next}, {&current, &r.Current}} {
				if *b.text == "" {
					continue
				}
				if *b.digest, err = p.FindBundle(c.Context(), args[0], *b.text); err != nil {
					return err
				}
			}
			if err := p.PushRollout(c.Context(), args[0], r, key); err != nil {
				return err
			}
			_, err = io.WriteString(c.OutOrStdout(), r.Describe())
			return err
		},
	}
	s.register(c)
	c.Flags().StringVar(&next, "next", "", "`bundle` for the stages, as a tag or a digest")
	c.Flags().StringVar(&current, "current", "", "`bundle` for all other gateways, as a tag or a digest")
	c.Flags().StringArrayVar(&stages, "stage", nil, "`stage`: tag:TAG, name:NODE or PERCENT%, and +DURATION if it opens later; may be repeated")
	c.Flags().DurationVar(&expires, "expires", 14*24*time.Hour, "`time` after which gateways report that there is no newer rollout")
	return c
}

// verifier is the flag --pub of commands that verify.
type verifier struct{ keys []string }

func (v *verifier) register(c *cobra.Command) {
	c.Flags().StringArrayVar(&v.keys, "pub", nil, "public `key` that must have signed it, or its file; may be repeated (default those of [bundle])")
}

// open checks a reference, as fleet.CheckReference does, and returns a Publisher that accepts signatures of the keys.
func (v *verifier) open(c *cobra.Command, o *options, reference string, needsTag bool) (*fleet.Publisher, error) {
	if err := fleet.CheckReference(reference, needsTag); err != nil {
		return nil, newUsageError(c, "%s: %w", reference, err)
	}
	var keys []fleet.PublicKey
	for _, text := range v.keys {
		if data, err := os.ReadFile(text); err == nil {
			text = string(data)
		}
		key, err := fleet.ParsePublicKey(text)
		if err != nil {
			return nil, newUsageError(c, "--pub %w", err)
		}
		keys = append(keys, key)
	}
	if len(keys) > 0 {
		return o.publisher(keys...)
	}
	cfg, err := o.load("")
	if err != nil {
		return nil, err
	}
	if cfg.Bundle == nil {
		return nil, newUsageError(c, "%s has no [bundle], and so no keys: add --pub", o.config)
	}
	for _, text := range cfg.Bundle.Keys {
		key, err := fleet.ParsePublicKey(text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return fleet.NewPublisher(cfg, keys...), nil
}

func newBundleInspectCommand(o *options) *cobra.Command {
	v := &verifier{}
	c := &cobra.Command{
		Use:     "inspect oci://REGISTRY/REPOSITORY:TAG",
		Short:   "Verify and describe a rollout",
		Long:    "Pull the rollout at a tag, verify its signature and those of the bundles that it names, and describe it.",
		Example: "  sluice bundle inspect oci://registry.example.com/acme/fleet:prod --pub fleet.key.pub",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return newUsageError(c, "`%s` takes a reference", c.CommandPath())
			}
			p, err := v.open(c, o, args[0], true)
			if err != nil {
				return err
			}
			defer p.Close()
			r, err := p.ReadRollout(c.Context(), args[0])
			if err != nil {
				return err
			}
			if _, err := io.WriteString(c.OutOrStdout(), r.Describe()); err != nil {
				return err
			}
			digests := slices.Compact([]string{r.Next, r.Current})
			for _, digest := range slices.DeleteFunc(digests, func(d string) bool { return d == "" }) {
				pinned, err := p.FindBundle(c.Context(), args[0], digest)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(c.OutOrStdout(), "verified  %s\n", pinned); err != nil {
					return err
				}
			}
			return nil
		},
	}
	v.register(c)
	return c
}

func newBundleDiffCommand(o *options) *cobra.Command {
	v := &verifier{}
	c := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Say what differs between two bundles, and for whom",
		Long: "Compare two bundles, each a file or a reference to a registry by tag or digest, whose signature is verified. There is a\n" +
			"line for each value that differs. Lines of models name the keys that may use the model, and lines of providers the models\n" +
			"that they serve. Of credentials, only names of variables are shown.",
		Example: "  sluice bundle diff oci://registry.example.com/acme/fleet:v1 bundle.toml --pub fleet.key.pub",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return newUsageError(c, "`%s` takes two bundles", c.CommandPath())
			}
			var sides [2]config.BundleText
			for i, name := range args {
				content, err := v.read(c, o, name)
				if err != nil {
					return err
				}
				sides[i] = config.BundleText{Name: name, Content: content}
			}
			text, err := config.DiffBundles(sides[0], sides[1], config.Options{Bundled: plugins.Names()})
			if err != nil {
				return err
			}
			_, err = io.WriteString(c.OutOrStdout(), text)
			return err
		},
	}
	v.register(c)
	return c
}

// read returns the text of a bundle in a file or a registry.
func (v *verifier) read(c *cobra.Command, o *options, name string) ([]byte, error) {
	if !strings.HasPrefix(name, "oci://") {
		return os.ReadFile(name)
	}
	p, err := v.open(c, o, name, false)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	s, err := p.ReadBundle(c.Context(), name)
	if err != nil {
		return nil, err
	}
	return s.Content, nil
}

func newBundlePullCommand(o *options) *cobra.Command {
	v := &verifier{}
	c := &cobra.Command{
		Use:   "pull REFERENCE DIR",
		Short: "Pull and verify a bundle",
		Long: "Pull a bundle by tag or digest, verify its signature, and write bundle.toml and bundle.toml.minisig to a directory, so that\n" +
			"they can be read, compared with others, or verified with minisign.",
		Example: "  sluice bundle pull oci://registry.example.com/acme/fleet:v2 . --pub fleet.key.pub",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return newUsageError(c, "`%s` takes a reference and a directory", c.CommandPath())
			}
			p, err := v.open(c, o, args[0], false)
			if err != nil {
				return err
			}
			defer p.Close()
			s, err := p.ReadBundle(c.Context(), args[0])
			if err != nil {
				return err
			}
			if err := createFiles(args[1], map[string][]byte{"bundle.toml": s.Content, "bundle.toml.minisig": s.Signature}); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "signed with key %s\n", s.Key.ID())
			return err
		},
	}
	v.register(c)
	return c
}
