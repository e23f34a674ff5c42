package manifest

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// HostRule says which hosts requests may go to: [scheme://]host[:port].
//
// The scheme is https, unless the rule says http. The host is a name, an IP
// address, "*.example.com" for every name below example.com, or "*" for every
// host. The port is the scheme's own, unless the rule names one; "*" is every port.
type HostRule struct {
	Scheme, Host, Port string
}

// maxHostLen is that of DNS.
const maxHostLen = 253

// ParseHostRule reads a rule. The error goes on from the quoted rule: "… names the
// scheme ftp; …".
func ParseHostRule(s string) (HostRule, error) {
	r := HostRule{Scheme: "https"}
	rest := s
	if scheme, after, ok := strings.Cut(s, "://"); ok {
		if r.Scheme, rest = strings.ToLower(scheme), after; r.Scheme != "https" && r.Scheme != "http" {
			return HostRule{}, fmt.Errorf("names the scheme %s; https and http are known", scheme)
		}
	}
	host, port := rest, ""
	if at := strings.LastIndexByte(rest, ':'); at >= 0 && !strings.HasSuffix(rest, "]") && (strings.Count(rest, ":") == 1 || rest[0] == '[') {
		host, port = rest[:at], rest[at+1:]
		if err := checkPort(port); err != nil {
			return HostRule{}, err
		}
	}
	r.Port = port
	if port == "" {
		r.Port = defaultPort(r.Scheme)
	}
	var err error
	switch below, wild := strings.CutPrefix(host, "*."); {
	case host == "*":
		r.Host = host
	case wild:
		if r.Host, err = CanonicalHost(below); err == nil && isAddress(r.Host) {
			err = errors.New("has an IP address after the star; only names have others below them")
		}
		r.Host = "*." + r.Host
	default:
		r.Host, err = CanonicalHost(host)
	}
	if err != nil {
		return HostRule{}, err
	}
	return r, nil
}

// String returns the rule in its shortest form; equal rules have equal ones.
func (r HostRule) String() string {
	host := r.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if r.Port != defaultPort(r.Scheme) {
		host += ":" + r.Port
	}
	if r.Scheme == "http" {
		host = "http://" + host
	}
	return host
}

// Matches reports whether a request goes where the rule says; target is as
// [RequestURL] returns it.
func (r HostRule) Matches(target HostRule) bool {
	return r.Scheme == target.Scheme && (r.Port == "*" || r.Port == target.Port) && r.matchesHost(target.Host)
}

func (r HostRule) matchesHost(host string) bool {
	below, wild := strings.CutPrefix(r.Host, "*")
	switch {
	case !wild:
		return r.Host == host
	case below == "":
		return true
	default: // ".example.com"
		return len(host) > len(below) && strings.HasSuffix(host, below) && !isAddress(host)
	}
}

// Covers reports whether every request that o lets pass passes r as well.
func (r HostRule) Covers(o HostRule) bool {
	if r.Scheme != o.Scheme || r.Port != "*" && r.Port != o.Port {
		return false
	}
	if below, wild := strings.CutPrefix(o.Host, "*."); wild {
		return r.Host == "*" || r.Host == o.Host || strings.HasPrefix(r.Host, "*.") && strings.HasSuffix("."+below, r.Host[1:])
	}
	return r.Host == o.Host || o.Host != "*" && r.matchesHost(o.Host)
}

// RequestURL reads the URL of a request: an absolute one of http or https, without a
// user name, to a host that rules know. The URL comes back without its fragment
// and with its host in canonical form; target is the rule that it alone matches.
func RequestURL(raw string) (u *url.URL, target HostRule, err error) {
	u, err = url.Parse(raw)
	switch {
	case err != nil:
		return nil, HostRule{}, errors.New("the URL cannot be read") // its error has the URL in it
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, HostRule{}, errors.New("the URL is not absolute, or not of https or http")
	case u.User != nil:
		return nil, HostRule{}, errors.New("the URL has a user name; send credentials in a header")
	case u.Opaque != "" || u.Host == "":
		return nil, HostRule{}, errors.New("the URL has no host")
	}
	target = HostRule{Scheme: u.Scheme, Port: u.Port()}
	name := u.Hostname()
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if target.Host, err = CanonicalHost(name); err != nil {
		return nil, HostRule{}, fmt.Errorf("the URL %w", err)
	}
	if target.Port == "" {
		target.Port = defaultPort(u.Scheme)
	} else if target.Port == "*" || checkPort(target.Port) != nil {
		return nil, HostRule{}, errors.New("the URL has a port that is not 1 to 65535")
	}
	u.Host = strings.TrimPrefix(target.String(), "http://")
	u.Fragment, u.RawFragment = "", ""
	return u, target, nil
}

// CanonicalHost returns a host as rules compare it: names in lower case without
// the dot at their end, addresses as netip writes them. The error goes on from the
// quoted host.
func CanonicalHost(host string) (string, error) {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if !ok {
			return "", errors.New("has a bracket without its other one")
		}
		host = inner
		if !strings.Contains(host, ":") {
			return "", errors.New("has brackets around what is no IPv6 address")
		}
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return "", errors.New("has an IPv6 zone, which means something on one machine alone")
		}
		return ip.Unmap().String(), nil
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	switch {
	case host == "":
		return "", errors.New("has no host; give a name such as api.example.com")
	case strings.ContainsAny(host, "/?#"):
		return "", errors.New("has a path; give the host alone, with its port where it needs one")
	case len(host) > maxHostLen:
		return "", fmt.Errorf("has a host of %d bytes; at most %d are allowed", len(host), maxHostLen)
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, notInLabel) {
			return "", errors.New("has a host that is no name: give letters, digits, - and _ with dots between, and other alphabets in Punycode (xn--…)")
		}
	}
	// What resolvers take for an address, in decimal, octal or hexadecimal.
	if last := labels[len(labels)-1]; last[0] >= '0' && last[0] <= '9' {
		return "", errors.New("has a host that ends in a number and is no IP address; write addresses as 192.0.2.1")
	}
	return host, nil
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

func notInLabel(c rune) bool {
	return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_'
}

func checkPort(port string) error {
	if port == "*" {
		return nil
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return errors.New("has a port that is not 1 to 65535; leave it away for the scheme's own, or give * for all")
	}
	return nil
}

func defaultPort(scheme string) string {
	if scheme == "http" {
		return "80"
	}
	return "443"
}
