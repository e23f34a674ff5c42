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
