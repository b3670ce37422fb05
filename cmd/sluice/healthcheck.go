package main

import (
	"context"
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

// maxHealthBody limits the bytes read of a response.
const maxHealthBody = 1 << 10

func newHealthcheckCommand(o *options) *cobra.Command {
	var ready bool
	var base string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "healthcheck",
		Short: "Check the health of a running gateway",
		Long: "Check that the gateway of this configuration is alive, with GET /healthz at the address in [admin]. With --ready,\n" +
			"check that it is ready for requests, with GET /readyz, which fails while it shuts down. The exit code is 0 for\n" +
			"healthy and 1 for unhealthy, as container health checks expect.\n\n" +
			"Only the address is read from the configuration, so a broken file does not make a serving gateway unhealthy.\n" +
			"--url checks another address.",
		Example: "  sluice healthcheck\n  sluice healthcheck --ready --config /etc/sluice/gateway.toml\n" +
			"  sluice healthcheck --url http://127.0.0.1:8081 --timeout 1s",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			path := "/healthz"
			if ready {
				path = "/readyz"
			}
			address, err := o.healthURL(c, base, path)
			if err != nil {
				return err
			}
			text, err := probe(c.Context(), address, timeout)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), text)
			return err
		},
	}
	c.Flags().BoolVar(&ready, "ready", false, "check readiness instead of liveness")
	c.Flags().StringVar(&base, "url", "", "admin `address`, http://host:port; overrides the configuration")
	c.Flags().DurationVar(&timeout, "timeout", 2*time.Second, "`duration` to wait for the response")
	return c
}

// healthURL returns the URL of path at the admin address base, or at the one in the configuration if base is empty.
func (o *options) healthURL(c *cobra.Command, base, path string) (string, error) {
	if base != "" {
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
			return "", newUsageError(c, "invalid address %q: want http://host:port", base)
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
		return "", fmt.Errorf("%s disables health checks: listen in [admin] is empty", o.config)
	case err != nil:
		return "", fmt.Errorf("%s: listen in [admin]: %w", o.config, err)
	case port == "0":
		return "", fmt.Errorf("%s lets the system choose the port in [admin]: give the address from the log with --url", o.config)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port) + path, nil
}

// probe returns the body of a 200 response, and an error for any other outcome.
func probe(ctx context.Context, address string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, body, err := getAdmin(ctx, address, maxHealthBody, timeout)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(body))
	if status != http.StatusOK {
		return "", fmt.Errorf("%s returned %d: %s", address, status, text)
	}
	return text, nil
}

// adminClient ignores proxies from the environment and does not follow redirects, so that only the gateway can respond.
var adminClient = http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// getAdmin sends a GET request to an admin address and reads up to limit bytes of the response. timeout is the timeout
// of ctx, for error texts.
func getAdmin(ctx context.Context, address string, limit int64, timeout time.Duration) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, err
	}
	return doAdmin(req, limit, timeout, "Is the gateway running with this configuration? --url checks another address.")
}

// doAdmin sends a request to an admin address and reads up to limit bytes of the response. Error texts mention timeout,
// which is the timeout of the request's context, and end with hint if there is no response.
func doAdmin(req *http.Request, limit int64, timeout time.Duration, hint string) (status int, body []byte, err error) {
	addToken(req)
	resp, err := adminClient.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return 0, nil, fmt.Errorf("no response from %s: %w\n%s", req.URL, simplifyNetError(err, timeout), hint)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(io.LimitReader(resp.Body, limit)); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", req.URL, simplifyNetError(err, timeout))
	}
	return resp.StatusCode, body, nil
}

// simplifyNetError drops the details of the most common network errors.
func simplifyNetError(err error, timeout time.Duration) error {
	var netErr net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	case errors.As(err, &netErr) && netErr.Timeout():
		return fmt.Errorf("timed out after %s", timeout)
	}
	return err
}
