package main

import (
	"reflect"
	"testing"
)

func TestWideGrants(t *testing.T) {
	for _, tt := range []struct {
		name              string
		granted, declared []string
		want              []wideGrant
	}{
		{"the same", []string{"a.example.com"}, []string{"a.example.com"}, nil},
		{"everything for one", []string{"*"}, []string{"a.example.com"}, []wideGrant{{"*", []string{"a.example.com"}}}},
		{"everything for several", []string{"*"}, []string{"b.example.com", "a.example.com", "b.example.com"}, []wideGrant{{"*", []string{"a.example.com", "b.example.com"}}}},
		{"a domain for one", []string{"*.example.com", "x.org"}, []string{"a.example.com", "x.org"}, []wideGrant{{"*.example.com", []string{"a.example.com"}}}},
		{"a type that declares all of it", []string{"*.example.com"}, []string{"a.example.com", "*.example.com"}, nil},
		{"a type that declares everything", []string{"*.example.com"}, []string{"a.example.com", "*"}, nil},
		{"every port for one", []string{"a.example.com:*"}, []string{"a.example.com:8443"}, []wideGrant{{"a.example.com:*", []string{"a.example.com:8443"}}}},
		{"another scheme", []string{"http://*"}, []string{"a.example.com"}, nil},
		{"nothing to do with it", []string{"*.example.com"}, []string{"x.org"}, nil},
	} {
		if got := wideGrants(tt.granted, tt.declared); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestRatesOfFlags: what a rate says, and how it is shown.
func TestRatesOfFlags(t *testing.T) {
	for text, want := range map[string]string{
		"100/s": "100/s", "90/m": "1.5/s", "100/h": "100/h", "2e9/s": "2e+09/s", "1000/s:2500": "1000/s, at once 2500", "0.5/s": "1800/h",
		"": "", "100": "", "/s": "", "100/d": "", "0/s": "", "-1/s": "", "NaN/s": "", "1/s:": "", "1/s:0": "", "1/s:x": "",
	} {
		got := ""
		if r, err := parseRate(text); err == nil {
			got = rateText(r)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
