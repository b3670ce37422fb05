package upstream

import (
	"net/netip"
	"testing"
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
		"::": "unspecified", "::1": "loopback", "fe80::1": "link-local", "fe80::1%eth0": "link-local", "fc00::1": "private", "fd00:ec2::254": "private",
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
