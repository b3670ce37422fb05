package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// maxSaid is how much of an answer is shown.
const maxSaid = 1 << 10

func healthcheckCommand(o *options) *cobra.Command {
	var ready bool
	var base string
	var patience time.Duration
	c := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a running gateway how it is",
		Long: "Ask the gateway that serves the configuration whether it is alive: GET /healthz at the address of [admin]. With\n" +
			"--ready, whether requests should come: GET /readyz, which says no while it shuts down. The exit code is 0 for\n" +
			"yes and 1 for no, as a container's health check wants it.\n\n" +
			"Of the configuration only that address is read, so that a file that is broken does not make a gateway unhealthy\n" +
			"that serves on with what it read before. --url names another address.",
		Example: "  sluice healthcheck\n  sluice healthcheck --ready --config /etc/sluice/gateway.toml\n" +
			"  sluice healthcheck --url http://127.0.0.1:8081 --timeout 1s",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			path := "/healthz"
			if ready {
				path = "/readyz"
			}
			address, err := o.healthAddress(c, base, path)
			if err != nil {
				return err
			}
			said, err := probe(address, patience)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), said)
			return err
		},
	}
	c.Flags().BoolVar(&ready, "ready", false, "ask whether requests should come, and not only whether it is alive")
	c.Flags().StringVar(&base, "url", "", "`address` of health and metrics, http://host:port, in place of the configuration's")
	c.Flags().DurationVar(&patience, "timeout", 2*time.Second, "how long the answer may take")
	return c
}

// healthAddress is what to ask.
func (o *options) healthAddress(c *cobra.Command, base, path string) (string, error) {
	if base != "" {
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
			return "", usage(c, "--url %q: write it as http://host:port", base)
		}
		return "http://" + u.Host + path, nil
	}
	listen, err := config.AdminListen(o.config, os.LookupEnv)
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(listen)
	switch {
	case listen == "":
		return "", fmt.Errorf("%s has health and metrics switched off: listen in [admin] is empty", o.config)
	case err != nil:
		return "", fmt.Errorf("%s: listen in [admin]: %w", o.config, err)
	case port == "0":
		return "", fmt.Errorf("%s leaves the port in [admin] open: name the address with --url; the log has it", o.config)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port) + path, nil
}

// probe returns what the gateway says where that is a yes.
func probe(address string, patience time.Duration) (string, error) {
	// Neither a proxy of the environment nor a redirect has anything to do with it.
	client := http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Get(address)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return "", fmt.Errorf("nothing answers at %s: %w\n%s", address, plainly(err, patience),
			"Does the gateway run, with the same configuration? Another address can be given with --url.")
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxSaid))
	if err != nil {
		return "", fmt.Errorf("%s: %w", address, plainly(err, patience))
	}
	said := strings.TrimSpace(string(text))
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s says %d: %s", address, answer.StatusCode, said)
	}
	return said, nil
}

// plainly is an error of the network without its details, where everybody knows what it is.
func plainly(err error, patience time.Duration) error {
	var network net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	case errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("no answer within %s", patience)
	}
	return err
}
