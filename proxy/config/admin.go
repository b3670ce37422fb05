package config

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
)

// defaultAdminListen has the port after that of defaultListen, also on the loopback interface only.
const defaultAdminListen = "127.0.0.1:8081"

// Admin is the table [admin].
type Admin struct {
	Listen  string   // "" disables the admin listener
	Default bool     // Listen is the default address; if it is in use, the gateway starts without an admin listener
	Hosts   []string // allowed Host headers besides IP addresses, localhost and the host of Listen; lower case

	Token        Secret // required for everything but health, readiness and metrics; "" requires none
	MetricsToken bool   // the token is required for metrics, too
	Requests     int    // number of recent requests that are kept
}

// Exposed reports whether other machines can reach the admin listener.
func (a *Admin) Exposed() bool { return a.Listen != "" && !loopback(a.Listen) }

// defaultRequests is the default of admin.requests.
const defaultRequests = 4096

func (l *loader) admin(t table) {
	a := &l.cfg.Admin
	a.Listen = defaultAdminListen
	v, at := t.text("listen")
	if at != nil {
		a.Listen = v
		if v != "" {
			if err := CheckListen(v); err != nil {
				t.fail(at, "listen", "%s: %v", show(at), err)
				a.Listen = ""
			}
		}
	}
	a.Default = a.Listen == defaultAdminListen
	hosts, _ := t.strings("hosts")
	for _, n := range hosts {
		if !hostName(n.text) {
			t.fail(n, "hosts", "%s: must be a name without a port", show(n))
			continue
		}
		a.Hosts = append(a.Hosts, strings.ToLower(n.text))
	}
	a.Requests = int(t.integer("requests", defaultRequests, 0, 1<<16))
	if token, n := l.secretKey(&t, "token"); n != nil {
		if a.Token = token.Secret; a.Token == "" {
			t.fail(n, "token", "is empty")
		}
		where := t.path.child("token")
		l.looksLikeSecret(&where, n, "")
	}
	if a.MetricsToken = t.bool("metrics_token", false); a.MetricsToken && t.lookUp("token") == nil {
		t.fail(t.lookUp("metrics_token"), "metrics_token", "needs a token: set token in [admin]")
	}
	t.finish()
	switch {
	case a.Listen == "":
	case !overlap(a.Listen, l.cfg.Server.Listen):
		if !loopback(a.Listen) && l.o.Dev {
			t.fail(at, "listen", devListen, a.Listen)
		} else if !loopback(a.Listen) && a.Token == "" {
			t.warn(at, "listen", "%s is reachable from other machines: anyone who can connect can read metrics and status; /requests is off without token", show(at))
		}
	case !a.Default:
		t.fail(at, "listen", "%s is the address of [server]; use another one for [admin]", show(at))
	default:
		*a = Admin{Hosts: a.Hosts, Token: a.Token, MetricsToken: a.MetricsToken, Requests: a.Requests}
		l.d.warnings = append(l.d.warnings, Error{File: l.d.file, Key: "admin.listen", Text: fmt.Sprintf(
			"server.listen is %q, the default address of [admin], which is disabled; choose another one", l.cfg.Server.Listen)})
	}
}

// overlap reports whether listening on both addresses at once would fail. Names are not resolved.
func overlap(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || everywhere(hostA) || everywhere(hostB) || loopback(a) && loopback(b) && (hostA == "localhost" || hostB == "localhost")
}

// everywhere reports whether listening on a host means listening on all addresses of the machine.
func everywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// AdminListen returns admin.listen of the file at path. Errors elsewhere in the file are ignored, so that a running
// gateway can be reached even if the file has become invalid. The result is the default address if the file cannot be
// read, or has a syntax error before [admin].
func AdminListen(path string, env func(string) (string, bool)) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return defaultAdminListen, nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return defaultAdminListen, nil
	}
	d := &document{file: path, env: env}
	root, _ := d.readTree(data, func(string) {})
	errs := d.errs
	d.errs = nil
	t := table{d: d, n: root, path: &keyPath{}}
	admin := t.table("admin")
	v, at := admin.text("listen")
	for _, e := range append(errs, d.errs...) {
		if strings.HasPrefix(e.Key, "admin.listen") {
			return "", e
		}
	}
	if at == nil {
		return defaultAdminListen, nil
	}
	return v, nil
}
