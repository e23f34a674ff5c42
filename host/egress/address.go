package egress

import "net/netip"

// kind is how far an address is from the public internet.
type kind uint8

const (
	// public addresses need no more than a rule.
	public kind = iota
	// private ones need a private grant: loopback, private networks, addresses
	// that are shared or reserved.
	private
	// link ones need a private grant that names them: link-local addresses, where
	// clouds keep the credentials of their machines.
	link
	// never is what no request is for: multicast, broadcast, unspecified.
	never
)

var (
	privateRanges = prefixes(
		"100.64.0.0/10", // shared by providers (CGNAT); one cloud's metadata too
		"192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10",
	)
	linkRanges = prefixes(
		"168.63.129.16/32",   // Azure's platform
		"100.100.100.200/32", // Alibaba's metadata
		"192.0.0.192/32",     // Oracle's
		"fd00:ec2::254/128",  // Amazon's, over IPv6
		"fd20:ce::254/128",   // Google's, over IPv6
	)
	neverRanges = prefixes("0.0.0.0/8", "240.0.0.0/4", "::/96")
	// embedding ranges have an IPv4 address in them, that a gateway may take out.
	nat64, sixToFour = netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2002::/16")
	translated       = netip.MustParsePrefix("::ffff:0:0:0/96") // ::ffff:0:a.b.c.d of RFC 2765
)

func prefixes(texts ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, text := range texts {
		ps = append(ps, netip.MustParsePrefix(text))
	}
	return ps
}

func within(ip netip.Addr, ranges []netip.Prefix) bool {
	for _, r := range ranges {
		if r.Contains(ip) {
			return true
		}
	}
	return false
}

// kindOf judges an address.
func kindOf(ip netip.Addr) kind {
	if ip.Zone() != "" {
		return never
	}
	ip = ip.Unmap()
	switch {
	case within(ip, linkRanges), ip.IsLinkLocalUnicast():
		return link
	case ip.IsLoopback(), ip.IsPrivate(), within(ip, privateRanges):
		return private // before never: ::1 lies in ::/96
	case !ip.IsValid(), ip.IsUnspecified(), ip.IsMulticast(), within(ip, neverRanges):
		return never
	case nat64.Contains(ip), translated.Contains(ip):
		b := ip.As16()
		return kindOf(netip.AddrFrom4([4]byte(b[12:16])))
	case sixToFour.Contains(ip):
		b := ip.As16()
		return kindOf(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return public
}
