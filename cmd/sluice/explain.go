package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
)

const (
	explainTimeout   = 10 * time.Second
	maxExplainBody   = 1 << 20 // largest request body, in bytes
	maxExplainResult = 4 << 20 // bytes read of a gateway's response
)

func newExplainCommand(o *options) *cobra.Command {
	var request proxy.ExplainRequest
	var body, base, format string
	var headers []string
	c := &cobra.Command{
		Use:   "explain",
		Short: "Explain how a request would be routed",
		Long: "Print which targets a request would be sent to, in which order, and why others are left out: conditions, rules,\n" +
			"affinity, canary, circuits, and the router plugin's decision. If the choice is random, the odds are printed.\n\n" +
			"Without --admin, the configuration is loaded as `sluice check` does, and no request is sent: all circuits are closed,\n" +
			"targets have no history, and canaries are at their first step. With --admin, a running gateway answers from its\n" +
			"current state. The body is never printed.",
		Example: "  sluice explain --model auto --key team-a\n  sluice explain --model auto --key team-a --body request.json --header 'x-session-id: 42'\n" +
			"  sluice explain --model auto --key team-a --api gemini --stream\n  sluice explain --model auto --key team-a --admin http://127.0.0.1:8081 --format json",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if format != "table" && format != "json" {
				return newUsageError(c, "invalid --format %q: want table or json", format)
			}
			var err error
			if request.Headers, err = parseHeaders(c, headers); err != nil {
				return err
			}
			if body != "" {
				if request.Body, err = readExplainBody(c.InOrStdin(), body); err != nil {
					return err
				}
			}
			if request.Model == "" && body == "" {
				return newUsageError(c, "which model? set --model, or --body with a request that names it")
			}
			var text []byte
			if base != "" {
				address, err := o.healthURL(c, base, "/explain")
				if err != nil {
					return err
				}
				text, err = explainAt(c.Context(), address, &request, format == "json")
				if err != nil {
					return err
				}
			} else if text, err = o.explain(c, &request, format == "json"); err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(text)
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&request.Model, "model", "", "`id` of the model, as a client asks for it")
	f.StringVar(&request.Key, "key", "", "`name` of the client's key in the configuration")
	f.StringVar(&request.API, "api", "chat", "`API` that the client uses: "+strings.Join(config.APINames(), ", "))
	f.StringVar(&body, "body", "", "`file` with the client's request as JSON, \"-\" for standard input; a short prompt by default")
	f.BoolVar(&request.Stream, "stream", false, "the client asks for a stream; a body says so itself, except in the Gemini API")
	f.StringArrayVar(&headers, "header", nil, "`header` of the client's request, \"name: value\"; can be repeated")
	f.StringVar(&request.Random, "random", "", "random `number` of a request, from its header x-gateway-route, to repeat its random choices")
	f.StringVar(&base, "admin", "", "admin `address` of a running gateway, http://host:port")
	f.StringVar(&format, "format", "table", "`format` of the output: table or json")
	return c
}

// parseHeaders reads headers as "name: value".
func parseHeaders(c *cobra.Command, lines []string) (map[string]string, error) {
	headers := make(map[string]string, len(lines))
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, newUsageError(c, "invalid --header: want \"name: value\"") // without the line, which may contain a key
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}

// readExplainBody reads the file with the request's body.
func readExplainBody(stdin io.Reader, name string) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	} else {
		name = "standard input"
	}
	data, err := io.ReadAll(io.LimitReader(in, maxExplainBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(data) > maxExplainBody:
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxExplainBody)
	case !json.Valid(data):
		return nil, fmt.Errorf("%s is not JSON: it must be the body of a client's request, such as {\"model\": \"…\", \"messages\": […]}", name)
	}
	return data, nil
}

// explain explains how a gateway with this configuration, and without any history, would route the request.
func (o *options) explain(c *cobra.Command, request *proxy.ExplainRequest, asJSON bool) ([]byte, error) {
	cfg, err := o.load("")
	if err != nil {
		return nil, err
	}
	s, err := o.build(cfg, c.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	explained, err := s.Explain(c.Context(), request)
	if err != nil {
		return nil, err
	}
	if asJSON {
		return explained.JSON, nil
	}
	return explained.Text, nil
}

// explainAt asks a running gateway how it would route the request.
func explainAt(ctx context.Context, address string, request *proxy.ExplainRequest, asJSON bool) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	data, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("content-type", "application/json")
	if !asJSON {
		req.Header.Set("accept", "text/plain")
	}
	status, body, err := doAdmin(req, maxExplainResult, explainTimeout, "Is the gateway running, and is this the address in [admin]?")
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound:
		return nil, fmt.Errorf("%s returned %d: is it the admin address of a gateway of this version?", address, status)
	case status != http.StatusOK:
		return nil, fmt.Errorf("%s", strings.TrimSpace(string(body)))
	}
	return body, nil
}
