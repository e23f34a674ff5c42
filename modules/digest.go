package modules

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
)

const (
	digestDigits    = 64
	minPrefixDigits = 6
	maxCandidates   = 10 // named in an error about an ambiguous prefix
)

func parseDigest(d actor.Digest) (string, error) {
	s := strings.ToLower(string(d))
	switch {
	case len(s) < minPrefixDigits:
		return "", &actor.ArgumentError{Field: "digest", Problem: fmt.Sprintf("has %d digits; give at least the first %d", len(s), minPrefixDigits)}
	case len(s) > digestDigits:
		return "", &actor.ArgumentError{Field: "digest", Problem: fmt.Sprintf("has %d digits; a SHA-256 has %d", len(s), digestDigits)}
	}
	if at := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) }); at >= 0 {
		return "", &actor.ArgumentError{Field: "digest", Problem: fmt.Sprintf("has at place %d something other than 0-9 and a-f", at+1)}
	}
	return s, nil
}

// justBelow returns the digest right before the first one that has the prefix,
// empty if there is none.
func justBelow(prefix string) actor.Digest {
	n, _ := new(big.Int).SetString(prefix+strings.Repeat("0", digestDigits-len(prefix)), 16)
	if n.Sign() == 0 {
		return ""
	}
	return actor.Digest(fmt.Sprintf("%0*x", digestDigits, n.Sub(n, big.NewInt(1))))
}
