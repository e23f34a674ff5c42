package manifest_test

import (
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi/manifest"
)

func TestHostRules(t *testing.T) {
	for text, want := range map[string]string{
		"api.example.com":               "api.example.com",
		"API.Example.com.":              "api.example.com",
		"https://api.example.com:443":   "api.example.com",
		"http://api.example.com:80":     "http://api.example.com",
		"http://api.example.com":        "http://api.example.com",
		"api.example.com:8443":          "api.example.com:8443",
		"*.example.com":                 "*.example.com",
		"*":                             "*",
		"*:*":                           "*:*",
		"HTTP://*:*":                    "http://*:*",
		"192.0.2.1:8080":                "192.0.2.1:8080",
		"[2001:DB8::1]:8080":            "[2001:db8::1]:8080",
		"2001:db8::1":                   "[2001:db8::1]",
		"::ffff:127.0.0.1":              "127.0.0.1",
		"localhost":                     "localhost",
		"xn--bcher-kva.example":         "xn--bcher-kva.example",
		"ftp://example.com":             "! names the scheme ftp",
		"":                              "! has no host",
		"https://":                      "! has no host",
		"example.com/path":              "! has a path",
		"user@example.com":              "! no name",
		"bücher.example":                "! Punycode",
		"a..b":                          "! no name",
		"*.*.example.com":               "! no name",
		"a.*.com":                       "! no name",
		"*example.com":                  "! no name",
		"*.127.0.0.1":                   "! IP address after the star",
		"127.1":                         "! ends in a number",
		"2130706433":                    "! ends in a number",
		"0x7f.0.0.0x1":                  "! ends in a number",
		"0177.0.0.1":                    "! ends in a number",
		"127.0.0.1.":                    "! ends in a number",
		"fe80::1%eth0":                  "! zone",
		"example.com:0":                 "! port",
		"example.com:":                  "! port",
		"example.com:080":               "! port",
		"example.com:65536":             "! port",
		"[::1":                          "! bracket",
		"[example.com]":                 "! brackets",
		strings.Repeat("a.", 127) + "b": "! 255 bytes",
	} {
		r, err := manifest.ParseHostRule(text)
		if wrong, ok := strings.CutPrefix(want, "! "); ok {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%q: got %v, %v; want an error with %q", text, r, err, wrong)
			}
			continue
		}
		if err != nil || r.String() != want {
			t.Errorf("%q: got %v, %v; want %s", text, r, err, want)
		}
		if again, err := manifest.ParseHostRule(r.String()); again != r || err != nil {
			t.Errorf("%q: its own text gives %v, %v", text, again, err)
		}
	}
}

func TestHostRulesMatch(t *testing.T) {
	for _, tt := range []struct {
		rule, scheme, host, port string
		want                     bool
	}{
		{"a.example", "https", "a.example", "443", true},
		{"a.example", "http", "a.example", "80", false},
		{"a.example", "https", "a.example", "8443", false},
		{"a.example:*", "https", "a.example", "8443", true},
		{"a.example", "https", "b.a.example", "443", false},
		{"*.example", "https", "a.example", "443", true},
		{"*.example", "https", "b.a.example", "443", true},
		{"*.example", "https", "example", "443", false},
		{"*.example", "https", "aexample", "443", false},
		{"*", "https", "192.0.2.1", "443", true},
		{"*", "https", "a.example", "80", false},
		{"http://127.0.0.1:*", "http", "127.0.0.1", "1", true},
		{"http://127.0.0.1:*", "http", "127.0.0.2", "1", false},
	} {
		r, err := manifest.ParseHostRule(tt.rule)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Matches(manifest.HostRule{Scheme: tt.scheme, Host: tt.host, Port: tt.port}); got != tt.want {
			t.Errorf("%s lets %s://%s:%s pass: %t", tt.rule, tt.scheme, tt.host, tt.port, got)
		}
	}
}

func TestHostRulesCover(t *testing.T) {
	for _, tt := range []struct {
		rule, other string
		want        bool
	}{
		{"a.example", "a.example", true},
		{"*.example", "a.example", true},
		{"*.example", "*.a.example", true},
		{"*.a.example", "*.example", false},
		{"*.xample", "*.example", false},
		{"a.example", "*.example", false},
		{"a.example", "*", false},
		{"*", "*", true},
		{"*.example", "*", false},
		{"*", "*.example", true},
		{"*", "http://a.example", false},
		{"a.example:*", "a.example", true},
		{"a.example", "a.example:*", false},
	} {
		r, err := manifest.ParseHostRule(tt.rule)
		o, err2 := manifest.ParseHostRule(tt.other)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if got := r.Covers(o); got != tt.want {
			t.Errorf("%s covers %s: %t", tt.rule, tt.other, got)
		}
	}
}

func TestRequestURLs(t *testing.T) {
	for raw, want := range map[string]string{
		"https://API.example.com./a?b#c":   "https://api.example.com/a?b api.example.com:443",
		"HTTP://[::FFFF:127.0.0.1]:80/":    "http://127.0.0.1/ 127.0.0.1:80",
		"http://[2001:db8:0::1]:8080":      "http://[2001:db8::1]:8080 2001:db8::1:8080",
		"https://a.example":                "https://a.example a.example:443",
		"https://a.example:444/%2F..%2f":   "https://a.example:444/%2F..%2f a.example:444",
		"//a.example/":                     "! not absolute",
		"/path":                            "! not absolute",
		"ftp://a.example/":                 "! not absolute",
		"file:///etc/passwd":               "! not absolute",
		"https:a.example":                  "! no host",
		"https:///path":                    "! no host",
		"https://user:pw@a.example/":       "! user name",
		"https://@127.0.0.1/":              "! user name",
		"http://2130706433/":               "! ends in a number",
		"http://0177.0.0.1/":               "! ends in a number",
		"http://0x7f.1/":                   "! ends in a number",
		"http://127.1/":                    "! ends in a number",
		"http://[fe80::1%25eth0]/":         "! zone",
		"http://a.example:99999/":          "! port",
		"http://a.example:0/":              "! port",
		"http://a b/":                      "! cannot be read",
		"http://127.0.0.1\r\nX: y/":        "! cannot be read",
		"http://a.example\\@127.0.0.1/":    "! cannot be read",
		"http://a.example%2f@127.0.0.1/":   "! user name",
		"http://\u2460\u2461\u2466.0.0.1/": "! no name",
	} {
		u, target, err := manifest.RequestURL(raw)
		if wrong, ok := strings.CutPrefix(want, "! "); ok {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%q: got %v, %v; want an error with %q", raw, u, err, wrong)
			}
			continue
		}
		if err != nil || u.String()+" "+target.Host+":"+target.Port != want {
			t.Errorf("%q: got %v, %+v, %v; want %s", raw, u, target, err, want)
		}
	}
}

func FuzzRequestURL(f *testing.F) {
	f.Add("http://user@[::1%25a]:80/#x")
	f.Add("https://a.example:8443/?q")
	f.Fuzz(func(t *testing.T, raw string) {
		u, target, err := manifest.RequestURL(raw)
		if err != nil {
			return
		}
		again, same, err := manifest.RequestURL(u.String())
		if err != nil || same != target || again.String() != u.String() {
			t.Fatalf("%q became %q %v, then %v %v %v", raw, u, target, again, same, err)
		}
	})
}

func FuzzHostRule(f *testing.F) {
	f.Add("http://*.example.com:*")
	f.Add("[::1]:80")
	f.Add("0x7f.1")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := manifest.ParseHostRule(text)
		if err != nil {
			return
		}
		again, err := manifest.ParseHostRule(r.String())
		if err != nil || again != r {
			t.Fatalf("%q: %+v became %+v, %v", r.String(), r, again, err)
		}
		if !r.Covers(r) {
			t.Fatalf("%s does not cover itself", r)
		}
	})
}
