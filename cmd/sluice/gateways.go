package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

const (
	gatewaysTimeout = 10 * time.Second
	maxGatewayBody  = 64 << 20 // bytes read of a gateway's response
)

// gatewaysHelp is the part of the help that the commands for several gateways share.
const gatewaysHelp = "--admin can be repeated, and a host name with several addresses means the gateways at all of them. A gateway that is\n" +
	"reached twice counts once. $SLUICE_ADMIN_TOKEN is sent as the token, if [admin] has one."

func gatewaysFlag(c *cobra.Command, bases *[]string) {
	c.Flags().StringArrayVar(bases, "admin", nil, "admin `address` of a running gateway, http://host:port; can be repeated")
}

// gatewayResponse is what one of several gateways has returned.
type gatewayResponse struct {
	gateway string // host:port
	body    []byte
	err     error
}

// gatewayAddresses returns the addresses host:port of the gateways at bases, or of the one in the configuration. A host
// name with several addresses is replaced by them.
func (o *options) gatewayAddresses(c *cobra.Command, bases []string) (addresses []string, err error) {
	if len(bases) == 0 {
		bases = []string{""}
	}
	for _, base := range bases {
		address, err := o.healthURL(c, base, "")
		if err != nil {
			return nil, err
		}
		at := strings.TrimPrefix(address, "http://")
		host, port, err := net.SplitHostPort(at)
		if err != nil {
			host, port = strings.Trim(at, "[]"), "80"
		}
		for _, ip := range lookUpAll(c.Context(), host) {
			addresses = append(addresses, net.JoinHostPort(ip, port))
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses), nil
}

// lookUpAll returns the addresses of a host name if it has several, and otherwise the name itself. The addresses of
// localhost are those of one machine.
func lookUpAll(ctx context.Context, host string) []string {
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		return []string{host}
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(found) < 2 {
		return []string{host} // the request reports the error
	}
	var all []string
	for _, ip := range found {
		all = append(all, ip.Unmap().String())
	}
	return all
}

// getFromAll sends a GET request for path to each gateway at the same time. It returns one response of each gateway, in
// the order of the addresses.
func getFromAll(ctx context.Context, addresses []string, path string) []gatewayResponse {
	ctx, cancel := context.WithTimeout(ctx, gatewaysTimeout)
	defer cancel()
	all, instances := make([]gatewayResponse, len(addresses)), make([]string, len(addresses))
	var wg sync.WaitGroup
	for i, at := range addresses {
		wg.Go(func() {
			r := &all[i]
			r.gateway = at
			var resp *http.Response
			if resp, r.err = openAdmin(ctx, "http://"+at+path, gatewaysTimeout); r.err != nil {
				return
			}
			defer resp.Body.Close()
			instances[i] = resp.Header.Get("x-gateway-instance")
			if r.body, r.err = io.ReadAll(io.LimitReader(resp.Body, maxGatewayBody)); r.err != nil {
				r.err = fmt.Errorf("%s: %w", at, simplifyNetError(r.err, gatewaysTimeout))
			} else if resp.StatusCode != http.StatusOK {
				r.err = &statusError{at + path, resp.StatusCode, strings.TrimSpace(string(r.body))}
			}
		})
	}
	wg.Wait()
	var distinct []gatewayResponse
	for i := range all {
		if all[i].err != nil || instances[i] == "" || !slices.Contains(instances[:i], instances[i]) {
			distinct = append(distinct, all[i])
		}
	}
	return distinct
}

// statusError is a response of a gateway with another status than 200.
type statusError struct {
	url    string
	status int
	text   string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("http://%s returned %d: %s", e.url, e.status, e.text)
}

// firstError returns the first error of responses.
func firstError(all []gatewayResponse) error {
	for i := range all {
		if all[i].err != nil {
			return all[i].err
		}
	}
	return nil
}

// openAdmin sends a GET request to an admin address, with the token in the environment. The caller closes the body.
func openAdmin(ctx context.Context, address string, timeout time.Duration) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	addToken(req)
	resp, err := adminClient.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, fmt.Errorf("no response from %s: %w", address, simplifyNetError(err, timeout))
	}
	return resp, nil
}

// addToken adds the token of the admin listener, if the environment has one.
func addToken(req *http.Request) {
	if token := os.Getenv("SLUICE_ADMIN_TOKEN"); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
}
