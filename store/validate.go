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
	rows := len(commits)
	for i := range commits {
		rows += len(commits[i].Others)
	}
	var buffer [1024]*actor.Key
	seen := newKeySet(rows, buffer[:])
	for i := range commits {
		c := &commits[i]
		if errs[i] = validateCommit(c); errs[i] != nil {
			continue
		}
		if k := seen.addAll(c); k != nil {
			errs[i] = &actor.ArgumentError{Field: "commit of " + c.Key.String(),
				Problem: "is the second of " + k.String() + " in one group; fold them or send them one after the other"}
		}
	}
	return errs
}

// keySet is a set of keys, which stay where they are: a map of keys would cost more
// than all else that is checked.
type keySet struct {
	seed  maphash.Seed
	slots []*actor.Key // a power of two of them; nil: free
}

// newKeySet returns an empty set for n keys, in buffer, which is empty, if that is
// enough.
func newKeySet(n int, buffer []*actor.Key) keySet {
	size := 1 << bits.Len(uint(2*n))
	if size > len(buffer) {
		buffer = make([]*actor.Key, size)
	}
	return keySet{seed: maphash.MakeSeed(), slots: buffer[:size]}
}

// addAll adds the keys of a commit, or returns one that is there already and adds
// none.
func (s *keySet) addAll(c *actor.Commit) (twice *actor.Key) {
	for i := range c.Others {
		if k := &c.Others[i].Key; *s.place(k) != nil {
			return k
		}
	}
	if !s.add(&c.Key) {
		return &c.Key
	}
	for i := range c.Others {
		s.add(&c.Others[i].Key)
	}
	return nil
}

// place is where a key is, or would be.
func (s *keySet) place(k *actor.Key) **actor.Key {
	mask := uint64(len(s.slots) - 1)
	for at := maphash.String(s.seed, k.ID) & mask; ; at = (at + 1) & mask {
		if other := s.slots[at]; other == nil || *other == *k {
			return &s.slots[at]
		}
	}
}

// add adds a key, and reports false if it is there already.
func (s *keySet) add(k *actor.Key) bool {
	slot := s.place(k)
	if *slot != nil {
		return false
	}
	*slot = k
	return true
}

func validateCommit(c *actor.Commit) error {
	bad := func(problem string, args ...any) error {
		return &actor.ArgumentError{Field: "commit of " + c.Key.String(), Problem: fmt.Sprintf(problem, args...)}
	}
	own := c.Row()
	if err := validateRow(&own, bad); err != nil {
		return err
	}
	switch {
	case c.ID == actor.CommitID{}:
		return bad("has no ID; take actor.NewCommitID")
	case !c.RecordsOnly() && own.ReadOnly():
		return bad("has new version 0, which is not above its read version %d", c.ReadVersion)
	case own.ReadOnly() && len(c.Others) > 0:
		return bad("has other rows and does not write its own; name one that it writes")
	}
	size := stateSize(&own)
	for i := range c.Others {
		r := &c.Others[i]
		if err := validateRow(r, func(problem string, args ...any) error {
			return bad("has a row of %s that "+problem, append([]any{r.Key}, args...)...)
		}); err != nil {
			return err
		}
		size += stateSize(r)
	}
	if k := namedTwice(c); k != nil {
		return bad("names %s twice", k)
	}
	records := c.Effects.Idempotency
	for i := range records {
		if err := validateRecord(c, &records[i]); err != nil {
			return err
		}
		size += RecordSize(&records[i])
	}
	if r := recordedTwice(c); r != nil {
		return bad("records the key %q of %s twice", r.Key, r.Method)
	}
	if size > actor.MaxCommitBytes {
		return bad("has %d bytes of state and replies; at most %d are allowed", size, actor.MaxCommitBytes)
	}
	return nil
}

func validateRow(r *actor.RowChange, bad func(problem string, args ...any) error) error {
	if err := r.Key.Validate(); err != nil {
		return err
	}
	switch s := r.State; {
	case r.ReadVersion > math.MaxInt64:
		return bad("has read version %d; the highest is 2^63-1", r.ReadVersion)
	case r.Fence && (r.Delete || s != nil):
		return bad("is a fence, and deletes or has state, too")
	case r.ReadOnly() && (r.Fence || r.Delete || s != nil):
		return bad("has new version 0, which is for rows that were only read, and changes its row")
	case r.ReadOnly():
	case r.NewVersion <= r.ReadVersion:
		return bad("has new version %d, which is not above its read version %d", r.NewVersion, r.ReadVersion)
	case r.NewVersion > math.MaxInt64:
		return bad("has new version %d; the highest is 2^63-1", r.NewVersion)
	case r.Generation > math.MaxInt64:
		return bad("has generation %d; the highest is 2^63-1", r.Generation)
	case s != nil && s.Format > actor.FormatEnvelope:
		return bad("has state of the unknown format %d", s.Format)
	case s != nil && s.Format == actor.FormatNone && len(s.Data) > 0:
		return bad("has %d bytes of state without a format", len(s.Data))
	}
	return nil
}

func stateSize(r *actor.RowChange) int {
	if r.State == nil {
		return 0
	}
	return len(r.State.Data)
}

// namedTwice returns an actor that a commit names twice.
func namedTwice(c *actor.Commit) *actor.Key {
	if len(c.Others) == 0 {
		return nil // the usual case
	}
	seen := newKeySet(1+len(c.Others), nil)
	seen.add(&c.Key)
	for i := range c.Others {
		if k := &c.Others[i].Key; !seen.add(k) {
			return k
		}
	}
	return nil
}

// OneRowOnly is the error of a locked turn that returns a commit of several rows,
// for drivers.
func OneRowOnly(c *actor.Commit) error {
	return &actor.ArgumentError{Field: "commit of the locked turn of " + c.Key.String(),
		Problem: "has other rows; a locked turn holds one, and commits of several go to Commit"}
}

// recordedTwice returns a record whose call another of the commit has, too.
func recordedTwice(c *actor.Commit) *actor.IdempotencyRecord {
	records := c.Effects.Idempotency
	if len(records) < 2 {
		return nil // the usual case, which needs no map
	}
	seen := make(map[actor.KeyedCall]struct{}, len(records))
	for i := range records {
		call := actor.KeyedCall{Actor: records[i].Actor, Method: records[i].Method, Key: records[i].Key}
		if call.Actor == (actor.Key{}) {
			call.Actor = c.Key
		}
		if _, twice := seen[call]; twice {
			return &records[i]
		}
		seen[call] = struct{}{}
	}
	return nil
}

func validateRecord(c *actor.Commit, r *actor.IdempotencyRecord) error {
	if err := errors.Join(actor.ValidateName("method", r.Method), actor.ValidateIdempotencyKey(r.Key)); err != nil {
		return err
	}
	if r.Actor != (actor.Key{}) {
		if err := r.Actor.Validate(); err != nil {
			return err
		}
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

// MaxDeployMessage bounds the message of a deployment, in bytes.
const MaxDeployMessage = 1024

// ValidateDeployments checks what [Modules].Deploy is given, for drivers: one
// app, each type once, valid names, generations from 1 to 2^63-1, messages of
// text.
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
		if d.Undeployed() && d.Generation == 1 {
			return &actor.ArgumentError{Field: "deployment of " + d.Type, Problem: "takes out of service what was never deployed"}
		}
		if err := validateMessage(d.Message); err != nil {
			return err
		}
		types[d.Type] = struct{}{}
	}
	return nil
}

func validateMessage(m string) error {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	switch {
	case len(m) > MaxDeployMessage:
		return &actor.ArgumentError{Field: "message", Problem: fmt.Sprintf("has %d bytes; at most %d are kept", len(m), MaxDeployMessage)}
	case !utf8.ValidString(m) || strings.ContainsFunc(m, control):
		return &actor.ArgumentError{Field: "message", Problem: "is not UTF-8, or has control characters"}
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
