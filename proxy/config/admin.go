package config

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
)

// standardAdmin is next to standardListen, and like it on this machine only.
const standardAdmin = "127.0.0.1:8081"

// Admin is the table [admin]: where health, metrics and status are served.
type Admin struct {
	Listen  string   // "": nowhere
	Default bool     // Listen is the default address: a gateway that cannot have it serves without it
	Hosts   []string // what a request's Host may be besides an IP address, localhost and the host of Listen; lower case
}

func (l *loader) admin(t table) {
	a := &l.cfg.Admin
	a.Listen = standardAdmin
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
	a.Default = a.Listen == standardAdmin
	hosts, _ := t.strings("hosts")
	for _, n := range hosts {
		if !hostName(n.text) {
			t.fail(n, "hosts", "%s: must be a name without a port", show(n))
			continue
		}
		a.Hosts = append(a.Hosts, strings.ToLower(n.text))
	}
	t.finish()
	switch {
	case a.Listen == "":
	case !overlap(a.Listen, l.cfg.Server.Listen):
		if !loopback(a.Listen) {
			t.warn(at, "listen", "%s is reachable from other machines: anyone who can connect can read metrics and status", show(at))
		}
	case !a.Default:
		t.fail(at, "listen", "%s is the address of [server]; use another one for [admin]", show(at))
	default:
		*a = Admin{Hosts: a.Hosts}
		l.d.warnings = append(l.d.warnings, Error{File: l.d.file, Key: "admin.listen", Text: fmt.Sprintf(
			"server.listen is %q, the default address of [admin], which is disabled; choose another one", l.cfg.Server.Listen)})
	}
}

// overlap tells whether two addresses to listen on cannot be had at once. What a name stands for is not known here.
func overlap(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || everywhere(hostA) || everywhere(hostB) || loopback(a) && loopback(b) && (hostA == "localhost" || hostB == "localhost")
}

// everywhere tells whether a host to listen on is every address of the machine.
func everywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// AdminListen is the address of health, metrics and status that the file at path says, for whoever wants to ask a gateway
// that serves on, whatever has become of the rest of the file: what is wrong elsewhere in it is no error. Where the file
// cannot be read, or cannot be read as far as [admin], it is the default address.
func AdminListen(path string, env func(string) (string, bool)) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return standardAdmin, nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return standardAdmin, nil
	}
	d := &document{file: path, data: bytes.TrimPrefix(data, []byte("\ufeff")), env: env}
	root, _ := d.read()
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
		return standardAdmin, nil
	}
	return v, nil
}
