package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
)

// pluginRun is `sluice plugin run`.
type pluginRun struct {
	*options
	pluginFlags
	request, response, target, form string
	targets, text                   string
	settings, targetOptions         string
	status                          int
	stream                          bool
}

func newPluginRunCommand(o *options) *cobra.Command {
	r := &pluginRun{options: o}
	c := &cobra.Command{
		Use:   "run [FILE|DIR] --request FILE | --targets FILE | --text FILE",
		Short: "Run a plugin on one request",
		Long: "Run a plugin on one request of a client, and print the request that it builds for the provider, what the client receives,\n" +
			"and the fuel of each call. With --response, the provider's response is read from a file whose extension is its format:\n" +
			".json for one document, or .sse, .ndjson or .eventstream for events. No request is sent, and no port is opened.\n\n" +
			"A router gets the document of --targets, as in targets.json of a vector. A filter gets the text of --text, which is in the\n" +
			"format of text.json if its name ends in .json.\n\n" +
			"The exit code is 1 if the request fails.",
		Example: "  sluice plugin run plugin.wasm --request request.json\n  sluice plugin run plugin.wasm --request request.json --response answer.sse --stream",
		Args:    atMostOneArgument("FILE or DIR"),
		RunE:    r.runE,
	}
	r.register(c)
	r.registerRequest(c)
	c.Flags().StringVar(&r.targets, "targets", "", "`file` with a request's targets, for a router")
	c.Flags().StringVar(&r.text, "text", "", "`file` with a text, for a filter")
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
	if r.request == "" && r.targets == "" && r.text == "" {
		return newUsageError(c, "no request; name a file with --request, for a router with --targets, or for a filter with --text")
	}
	s, err := r.open(c, subjectArgument(args))
	if err != nil {
		return err
	}
	run, err := r.read(c)
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
	for flag, wrong := range map[string]bool{
		"request": r.request != "" && !p.Provider(), "targets": r.targets != "" && !p.Router(), "text": r.text != "" && !p.Filter(),
	} {
		if wrong {
			return newUsageError(c, "plugin %s is %s: --%s is for another kind", s.module.Name, p.Kind(), flag)
		}
	}
	b, err := p.Bind(ctx, r.use(s))
	if err != nil {
		return invalidPlugin(err)
	}
	text, err := run(b)
	fmt.Fprint(c.OutOrStdout(), text)
	if err != nil {
		return fmt.Errorf("the request failed: %w", err)
	}
	return nil
}

// read reads the files that the command line names, and returns the function that runs the plugin on them.
func (r *pluginRun) read(c *cobra.Command) (run func(*plugindev.Binding) (string, error), err error) {
	switch {
	case r.targets != "":
		document, err := os.ReadFile(r.targets)
		if err != nil {
			return nil, err
		}
		route, err := plugindev.ReadRoute(document)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.targets, err)
		}
		return route.Trace, nil
	case r.text != "":
		document, err := os.ReadFile(r.text)
		if err != nil {
			return nil, err
		}
		text := &plugindev.FilteredText{Text: string(document)}
		if strings.HasSuffix(r.text, ".json") {
			if text, err = plugindev.ReadText(document); err != nil {
				return nil, fmt.Errorf("%s: %w", r.text, err)
			}
		}
		return text.Trace, nil
	}
	v, err := r.vector(c)
	if err != nil {
		return nil, err
	}
	return func(b *plugindev.Binding) (string, error) { return v.Trace(b, r.stream || v.Stream()) }, nil
}
