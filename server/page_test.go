package server

import (
	"encoding/base64"
	"testing"
)

func TestPageToken(t *testing.T) {
	list := pageList{"/x/List", "default", "Counter"}
	for _, after := range oddIDs {
		token := pageToken(list, after)
		if len(token) > 1024 {
			t.Errorf("token of %d bytes; the API takes 1024", len(token))
		}
		if got, err := parsePageToken(list, token); err != nil || got != after {
			t.Errorf("%q: got %q, %v", after, got, err)
		}
	}
	if got, err := parsePageToken(list, ""); got != "" || err != nil {
		t.Errorf("first page: %q, %v", got, err)
	}
}

func TestPageTokenOfAnotherListIsRefused(t *testing.T) {
	token := pageToken(pageList{"/x/List", "default", "Counter"}, "a")
	for _, list := range []pageList{
		{"/y/List", "default", "Counter"}, {"/x/List", "other", "Counter"}, {"/x/List", "default", "Cart"},
	} {
		if _, err := parsePageToken(list, token); err == nil {
			t.Errorf("%v took a token of another list", list)
		}
	}
	for _, bad := range []string{"x", "!", "AAAA", token[:len(token)-1], token + "A", base64.RawURLEncoding.EncodeToString(make([]byte, 700))} {
		if _, err := parsePageToken(pageList{"/x/List", "default", "Counter"}, bad); err == nil {
			t.Errorf("token %q was taken", bad)
		}
	}
}
