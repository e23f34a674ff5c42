package store

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/actor"
)

// MaxList is the highest limit of the listing methods.
const MaxList = 1000

// ValidateGroup checks a group of commits against the contract, for drivers:
// the result has one error per commit, nil for one that may be tried. Versions
// and generations stay below 2^63, since SQL has no unsigned integers.
func ValidateGroup(commits []actor.Commit) []error {
	errs := make([]error, len(commits))
	var room [1024]int32
	seen := newKeySet(len(commits), room[:])
	for i := range commits {
		errs[i] = validateCommit(&commits[i])
		if errs[i] != nil {
			continue
		}
		if !seen.add(commits, i) {
			errs[i] = &actor.ArgumentError{Field: "commit of " + commits[i].Key.String(),
				Problem: "is the second of that actor in one group; fold them or send them one after the other"}
		}
	}
	return errs
}

// keySet is a set of the keys of commits, by their positions in the group: a map
// of keys would cost more than all else that is checked.
type keySet struct {
	seed  maphash.Seed
	slots []int32 // positions from 1 on; 0: free; a power of two of them
}

// newKeySet returns an empty set for n keys, in room, which is empty, if that is
// enough.
func newKeySet(n int, room []int32) keySet {
	size := 1 << bits.Len(uint(2*n))
	if size > len(room) {
		room = make([]int32, size)
	}
	return keySet{seed: maphash.MakeSeed(), slots: room[:size]}
}

// add adds the key of a commit, and reports false if it is there already.
func (s *keySet) add(commits []actor.Commit, i int) bool {
	k := &commits[i].Key
	mask := uint64(len(s.slots) - 1)
	for at := maphash.String(s.seed, k.ID) & mask; ; at = (at + 1) & mask {
		switch other := s.slots[at]; {
		case other == 0:
			s.slots[at] = int32(i + 1)
			return true
		case commits[other-1].Key == *k:
			return false
		}
	}
}

func validateCommit(c *actor.Commit) error {
	if err := c.Key.Validate(); err != nil {
		return err
	}
	bad := func(problem string, args ...any) error {
		return &actor.ArgumentError{Field: "commit of " + c.Key.String(), Problem: fmt.Sprintf(problem, args...)}
	}
	switch s := c.Effects.State; {
	case c.ID == actor.CommitID{}:
		return bad("has no ID; take actor.NewCommitID")
	case c.Fence && (c.Delete || s != nil):
		return bad("is a fence, and deletes or has state, too")
	case c.RecordsOnly(): // it writes no version
		if c.ReadVersion > math.MaxInt64 {
			return bad("has read version %d; the highest is 2^63-1", c.ReadVersion)
		}
	case c.NewVersion <= c.ReadVersion:
		return bad("has new version %d, which is not above its read version %d", c.NewVersion, c.ReadVersion)
	case c.NewVersion > math.MaxInt64:
		return bad("has new version %d; the highest is 2^63-1", c.NewVersion)
	case c.Generation > math.MaxInt64:
		return bad("has generation %d; the highest is 2^63-1", c.Generation)
	case s != nil && s.Format > actor.FormatEnvelope:
		return bad("has state of the unknown format %d", s.Format)
	case s != nil && s.Format == actor.FormatNone && len(s.Data) > 0:
		return bad("has %d bytes of state without a format", len(s.Data))
	}
	size := 0
	if c.Effects.State != nil {
		size = len(c.Effects.State.Data)
	}
	records := c.Effects.Idempotency
	for i := range records {
		if err := validateRecord(c, &records[i]); err != nil {
			return err
		}
		size += RecordSize(&records[i])
	}
	if r := recordedTwice(records); r != nil {
		return bad("records the key %q of %s twice", r.Key, r.Method)
	}
	if size > actor.MaxCommitBytes {
		return bad("has %d bytes of state and replies; at most %d are allowed", size, actor.MaxCommitBytes)
	}
	return nil
}

// recordedTwice returns a record whose method and key another has, too.
func recordedTwice(records []actor.IdempotencyRecord) *actor.IdempotencyRecord {
	if len(records) < 2 {
		return nil // the usual case, which needs no map
	}
	type call struct{ method, key string }
	seen := make(map[call]struct{}, len(records))
	for i := range records {
		c := call{records[i].Method, records[i].Key}
		if _, twice := seen[c]; twice {
			return &records[i]
		}
		seen[c] = struct{}{}
	}
	return nil
}

func validateRecord(c *actor.Commit, r *actor.IdempotencyRecord) error {
	if err := errors.Join(actor.ValidateName("method", r.Method), actor.ValidateIdempotencyKey(r.Key)); err != nil {
		return err
	}
	var problem string
	switch {
	case r.TTL < time.Microsecond:
		problem = fmt.Sprintf("has a TTL of %v; the shortest is 1µs", r.TTL)
	case r.Version > math.MaxInt64:
		problem = fmt.Sprintf("has version %d; the highest is 2^63-1", r.Version)
	case len(r.Reply.ContentType) > math.MaxUint16:
		problem = fmt.Sprintf("has a content type of %d bytes; at most %d are allowed", len(r.Reply.ContentType), math.MaxUint16)
	default:
		return nil
	}
	return &actor.ArgumentError{Field: fmt.Sprintf("idempotency record %q of %s.%s", r.Key, c.Key, r.Method), Problem: problem}
}

// ValidateLimit checks the limit of a listing method, for drivers.
func ValidateLimit(limit int) error {
	if limit < 1 || limit > MaxList {
		return &actor.ArgumentError{Field: "limit", Problem: fmt.Sprintf("is %d; give 1 to %d", limit, MaxList)}
	}
	return nil
}

// ValidateDeployments checks what [Modules].Deploy is given, for drivers: one
// app, each type once, valid names, generations from 1 to 2^63-1.
func ValidateDeployments(ds []actor.Deployment) error {
	types := make(map[string]struct{}, len(ds))
	for _, d := range ds {
		if err := actor.ValidateName("app", d.App); err != nil {
			return err
		}
		if err := actor.ValidateName("actor type", d.Type); err != nil {
			return err
		}
		if d.App != ds[0].App {
			return &actor.ArgumentError{Field: "deployment", Problem: fmt.Sprintf("is of the apps %s and %s; deploy one app at a time", ds[0].App, d.App)}
		}
		if _, dup := types[d.Type]; dup {
			return &actor.ArgumentError{Field: "deployment", Problem: "names the type " + d.Type + " twice"}
		}
		if d.Generation < 1 || d.Generation > math.MaxInt64 {
			return &actor.ArgumentError{Field: "deployment of " + d.Type, Problem: fmt.Sprintf("has generation %d; generations go from 1 to 2^63-1", d.Generation)}
		}
		types[d.Type] = struct{}{}
	}
	return nil
}

// Bounds of a setting, in bytes.
const (
	MaxSettingName  = 512
	MaxSettingValue = 128 << 10
)

// ValidateSetting checks what names a setting, for drivers, and its value.
func ValidateSetting(s actor.Setting) error {
	if err := actor.ValidateName("app", s.App); err != nil {
		return err
	}
	if err := actor.ValidateName("kind of setting", string(s.Kind)); err != nil {
		return err
	}
	switch {
	case s.Name == "" || len(s.Name) > MaxSettingName:
		return &actor.ArgumentError{Field: "name of a setting", Problem: fmt.Sprintf("has %d bytes; give 1 to %d", len(s.Name), MaxSettingName)}
	case !utf8.ValidString(s.Name) || strings.ContainsFunc(s.Name, unicode.IsControl):
		return &actor.ArgumentError{Field: "name of a setting", Problem: "is not UTF-8, or has control characters"}
	case len(s.Value) > MaxSettingValue:
		return &actor.ArgumentError{Field: "value of " + s.Name, Problem: fmt.Sprintf("has %d bytes; at most %d are stored", len(s.Value), MaxSettingValue)}
	}
	return nil
}

// ValidateCalls checks what [Actors].LoadIdempotency is given, for drivers.
func ValidateCalls(calls []actor.KeyedCall) error {
	for _, c := range calls {
		if err := c.Actor.Validate(); err != nil {
			return err
		}
		if err := actor.ValidateName("method", c.Method); err != nil {
			return err
		}
		if err := actor.ValidateIdempotencyKey(c.Key); err != nil {
			return err
		}
	}
	return nil
}

// ValidateKeys checks keys, for drivers.
func ValidateKeys(keys []actor.Key) error {
	for _, k := range keys {
		if err := k.Validate(); err != nil {
			return err
		}
	}
	return nil
}
