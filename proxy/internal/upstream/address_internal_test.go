package upstream

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

func TestAddressClasses(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"1.1.1.1": "", "8.8.8.8": "", "172.15.255.255": "", "172.32.0.0": "", "100.63.255.255": "", "100.128.0.0": "", "192.0.1.1": "", "223.255.255.255": "",
		"2606:4700:4700::1111": "", "2001:4860:4860::8888": "", "::ffff:1.1.1.1": "", "64:ff9b::101:101": "", "2002:101:101::1": "",

		"0.0.0.0": "unspecified", "0.1.2.3": "this network", "127.0.0.1": "loopback", "127.255.255.254": "loopback",
		"10.0.0.1": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private",
		"169.254.169.254": "link-local", "169.254.170.2": "link-local", "100.64.0.1": "carrier network", "100.100.100.200": "carrier network",
		"168.63.129.16": "metadata", "192.0.0.192": "reserved", "198.18.0.1": "benchmark network", "224.0.0.1": "multicast",
		"240.0.0.1": "reserved", "255.255.255.255": "reserved",
		"::": "unspecified", "::1": "loopback", "fe80::1": "link-local", "fe80::1%eth0": "link-local", "fc00::1": "private", "fd00:ec2::254": "metadata",
		"ff02::1": "multicast", "fec0::1": "site-local", "100::1": "discarded",
		"::ffff:127.0.0.1": "loopback", "::ffff:169.254.169.254": "link-local", "::127.0.0.1": "loopback", "::10.0.0.1": "private",
		"64:ff9b::a9fe:a9fe": "link-local", "64:ff9b::7f00:1": "loopback", "64:ff9b:1::a00:1": "private", "2002:7f00:1::": "loopback", "2002:a9fe:a9fe::1": "link-local",
	} {
		if got := addressClass(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
	if got := addressClass(netip.Addr{}); got == "" {
		t.Error("the zero address has no class, so it may be dialled")
	}
	if controlAddress(t.Context(), "tcp4", "provider.test:80", nil) == nil {
		t.Error("a name may be dialled")
	}
}

// TestReceivedAddresses checks that a peer cannot send the gateway to a metadata service, whatever is allowed, and to
// this machine only if private addresses are allowed.
func TestReceivedAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string][2]bool{ // allowed without and with private addresses
		"1.1.1.1:443":        {true, true},
		"127.0.0.1:80":       {false, true},
		"10.1.2.3:80":        {false, true},
		"169.254.169.254:80": {false, false},
		"[fd00:ec2::254]:80": {false, false},
		"100.100.100.200:80": {false, false},
		"168.63.129.16:80":   {false, false},
		"0.0.0.0:80":         {false, false},
		"[fe80::1]:80":       {false, false},
		"registry.test:443":  {false, false},
	} {
		for i, private := range []bool{false, true} {
			if err := controlReceived(private)(t.Context(), "tcp", address, nil); (err == nil) != want[i] {
				t.Errorf("%s, private allowed %t: %v", address, private, err)
			}
		}
	}
}

// TestReceivedLiteral checks that an address in a received URL is checked, and one in a configured URL is not.
func TestReceivedLiteral(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost"} {
		for _, tt := range []struct{ received, private, want bool }{{false, false, true}, {true, false, false}, {true, true, true}} {
			c := newConnector(&Config{Received: tt.received, AllowPrivate: tt.private, Now: time.Now}, host, port, host != "localhost")
			conn, err := c.connect(t.Context())
			if (err == nil) != tt.want {
				t.Errorf("%s %+v: %v", host, tt, err)
			}
			if err == nil {
				conn.Close()
			}
			c.close()
		}
	}
}
