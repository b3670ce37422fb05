package upstream

import (
	"context"
	"net/netip"
	"syscall"
)

// forbidden are the ranges that a name must not resolve to, besides those that netip.Addr classifies. Cloud metadata
// services are in some of them.
var forbidden = []struct {
	netip.Prefix
	class string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("100.64.0.0/10"), "carrier network"},
	{netip.MustParsePrefix("168.63.129.16/32"), "metadata"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmark network"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("100::/64"), "discarded"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
}

// embedded are the IPv6 ranges whose addresses embed an IPv4 address, with its offset in bytes.
var embedded = []struct {
	netip.Prefix
	at int
}{
	{netip.MustParsePrefix("::/96"), 12},
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
}

// addressClass returns why a resolved address must not be connected to, or "" if it may be.
func addressClass(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid():
		return "not an address"
	case a.IsUnspecified():
		return "unspecified"
	case a.IsLoopback():
		return "loopback"
	case a.IsPrivate():
		return "private"
	case a.IsLinkLocalUnicast():
		return "link-local"
	case a.IsMulticast():
		return "multicast"
	}
	for _, r := range forbidden {
		if r.Contains(a) {
			return r.class
		}
	}
	for _, e := range embedded {
		if e.Contains(a) {
			b := a.As16()
			return addressClass(netip.AddrFrom4([4]byte(b[e.at : e.at+4])))
		}
	}
	return ""
}

// controlAddress is a net.Dialer.ControlContext. It checks the address right before connecting, so that a second DNS
// response cannot get around the check.
func controlAddress(_ context.Context, _, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &AddressError{Class: "not an address"}
	}
	if class := addressClass(ap.Addr()); class != "" {
		return &AddressError{Addr: ap.Addr(), Class: class}
	}
	return nil
}
