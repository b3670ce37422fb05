package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
)

// pluginRun is `sluice plugin run`.
type pluginRun struct {
	*options
	pluginFlags
	request, response, target, form string
	settings, targetOptions         string
	status                          int
	stream                          bool
}

func newPluginRunCommand(o *options) *cobra.Command {
	r := &pluginRun{options: o}
	c := &cobra.Command{
		Use:   "run [FILE|DIR] --request FILE",
		Short: "Run a plugin on one request",
		Long: "Run a plugin on one request of a client, and print the request that it builds for the provider, what the client receives,\n" +
			"and the fuel of each call. With --response, the provider's response is read from a file whose extension is its format:\n" +
			".json for one document, or .sse, .ndjson or .eventstream for events. No request is sent, and no port is opened.\n\n" +
			"The exit code is 1 if the request fails.",
		Example: "  sluice plugin run plugin.wasm --request request.json\n  sluice plugin run plugin.wasm --request request.json --response answer.sse --stream",
		Args:    atMostOneArgument("FILE or DIR"),
		RunE:    r.runE,
	}
	r.register(c)
	r.registerRequest(c)
	c.Flags().BoolVar(&r.stream, "stream", false, "treat the request as streaming, whatever it says")
	return c
}

// registerRequest adds the flags that describe a request.
func (r *pluginRun) registerRequest(c *cobra.Command) {
	c.Flags().StringVar(&r.request, "request", "", "`file` with the client's request")
	c.Flags().StringVar(&r.response, "response", "", "`file` with the provider's response")
	c.Flags().IntVar(&r.status, "status", 200, "HTTP `status` of the response")
	c.Flags().StringVar(&r.target, "target", "target-model", "the provider's `name` of the model")
	c.Flags().StringVar(&r.form, "form", "chat", "the `API` of the request: chat, messages, responses, gemini, completions, embeddings, moderations or rerank")
	c.Flags().StringVar(&r.settings, "options", "", "the provider's options, a JSON `object`")
	c.Flags().StringVar(&r.targetOptions, "target-options", "", "the target's options, a JSON `object`")
}

// use returns the plugin's use, with the options of the command line.
func (r *pluginRun) use(s *subject) plugindev.Use {
	use := s.suite.Use
	if r.settings != "" {
		use.Settings = r.settings
	}
	return use
}

// vector reads the request and the response that the command line names.
func (r *pluginRun) vector(c *cobra.Command) (v *plugindev.Vector, err error) {
	for flag, text := range map[string]string{"options": r.settings, "target-options": r.targetOptions} {
		if text != "" && !json.Valid([]byte(text)) {
			return nil, newUsageError(c, "--%s is not JSON", flag)
		}
	}
	v = &plugindev.Vector{Target: r.target, Form: r.form, Options: []byte(r.targetOptions)}
	if r.form == "chat" {
		v.Form = ""
	}
	if v.Request, err = os.ReadFile(r.request); err != nil {
		return nil, err
	}
	v.Request = bytes.TrimSpace(v.Request)
	if err := plugindev.CheckRequest(v.Form, v.Request); err != nil {
		return nil, fmt.Errorf("%s: the gateway rejects the request: %w", r.request, err)
	}
	if r.response != "" {
		body, err := os.ReadFile(r.response)
		if err != nil {
			return nil, err
		}
		answer, err := plugindev.ReadAnswer(r.response, body, r.status)
		if err != nil {
			return nil, newUsageError(c, "--response %w", err)
		}
		v.Answers = []plugindev.Answer{answer}
	}
	return v, nil
}

func (r *pluginRun) runE(c *cobra.Command, args []string) error {
	if r.request == "" {
		return newUsageError(c, "no request; name a file with --request")
	}
	s, err := r.open(c, subjectArgument(args))
	if err != nil {
		return err
	}
	v, err := r.vector(c)
	if err != nil {
		return err
	}
	h, closed, err := r.host()
	if err != nil {
		return err
	}
	defer closed()
	ctx := context.Background()
	p, err := h.Load(ctx, s.module)
	if err != nil {
		return invalidPlugin(err)
	}
	defer p.Close()
	b, err := p.Bind(ctx, r.use(s))
	if err != nil {
		return invalidPlugin(err)
	}
	if !p.Provider() {
		return newUsageError(c, "plugin %s is not a provider: `sluice plugin test` runs vectors of routers", s.module.Name)
	}
	text, err := v.Trace(b, r.stream || v.Stream())
	fmt.Fprint(c.OutOrStdout(), text)
	if err != nil {
		return fmt.Errorf("the request failed: %w", err)
	}
	return nil
}
