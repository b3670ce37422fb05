package upstream

import (
	"context"
	"net/netip"
	"slices"
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

// metadataIPv6 is the address of a cloud's metadata service within the private addresses.
var metadataIPv6 = netip.MustParseAddr("fd00:ec2::254")

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
	case a == metadataIPv6:
		return "metadata"
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
	return checkAddress(address)
}

// controlReceived returns controlAddress for a base URL that a peer has sent. private allows loopback and private
// addresses, but no others: a cloud's metadata service must not be reachable by a redirect.
func controlReceived(private bool) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return checkAddress(address, map[bool][]string{true: {"loopback", "private"}}[private]...)
	}
}

// checkAddress returns an error if an address with a port must not be connected to and its class is not allowed.
func checkAddress(address string, allowed ...string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &AddressError{Class: "not an address"}
	}
	if class := addressClass(ap.Addr()); class != "" && !slices.Contains(allowed, class) {
		return &AddressError{Addr: ap.Addr(), Class: class}
	}
	return nil
}
