package store

import (
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/actor"
)

// ValidateGroup checks a group of commits against the contract, for drivers:
// the result has one error per commit, nil for one that may be tried. Versions
// and generations stay below 2^63, since SQL has no unsigned integers.
func ValidateGroup(commits []actor.Commit) []error {
	errs := make([]error, len(commits))
	rows := 0
	for i := range commits {
		rows += len(commits[i].Rows) + len(commits[i].Fences)
	}
	var buffer [1024]*actor.Key
	seen := newKeySet(rows, buffer[:])
	var recorded map[actor.KeyedCall]struct{} // nil: no call can be there twice
	if anyElsewhere(commits) {
		recorded = make(map[actor.KeyedCall]struct{})
	}
	for i := range commits {
		c := &commits[i]
		if errs[i] = validateCommit(c); errs[i] != nil {
			continue
		}
		if r := recordedBefore(recorded, c); r != nil {
			errs[i] = &actor.ArgumentError{Field: CommitName(c),
				Problem: "is the second to record " + r.Call().String() + " in one group; send them one after the other"}
			continue
		}
		if k := seen.addAll(c); k != nil {
			errs[i] = &actor.ArgumentError{Field: CommitName(c),
				Problem: "is the second of " + k.String() + " in one group; fold them or send them one after the other"}
			continue
		}
		if recorded != nil {
			for j := range c.Records {
				recorded[c.Records[j].Call()] = struct{}{}
			}
		}
	}
	return errs
}

// anyElsewhere reports whether a commit records a call of an actor without having a row of
// that actor. If none does, no two commits of a group record the same call, since no two have
// the same row.
func anyElsewhere(commits []actor.Commit) bool {
	for i := range commits {
		c := &commits[i]
		for j := range c.Records {
			if !names(c, &c.Records[j].Actor) {
				return true
			}
		}
	}
	return false
}

// recordedBefore returns a record of c whose call is among those recorded.
func recordedBefore(recorded map[actor.KeyedCall]struct{}, c *actor.Commit) *actor.IdempotencyRecord {
	if len(recorded) == 0 {
		return nil // the usual case
	}
	for i := range c.Records {
		if _, twice := recorded[c.Records[i].Call()]; twice {
			return &c.Records[i]
		}
	}
	return nil
}

// names reports whether c writes or fences the row of k.
func names(c *actor.Commit, k *actor.Key) bool {
	for named := range keysOf(c) {
		if *named == *k {
			return true
		}
	}
	return false
}

// CommitName names a commit in an error, by its anchor or, if it has no row, by the
// first call that it records.
func CommitName(c *actor.Commit) string {
	switch {
	case len(c.Rows)+len(c.Fences) > 0:
		return "commit of " + c.Anchor().Key.String()
	case len(c.Records) > 0:
		return "commit of the call " + c.Records[0].Call().String()
	}
	return "commit " + c.ID.String()
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
	if len(c.Rows) == 1 && len(c.Fences) == 0 { // the usual case, which needs one search
		if k := &c.Rows[0].Key; !s.add(k) {
			return k
		}
		return nil
	}
	for k := range keysOf(c) {
		if *s.place(k) != nil {
			return k
		}
	}
	for k := range keysOf(c) {
		s.add(k)
	}
	return nil
}

// keysOf returns the keys of the rows that a commit writes or fences.
func keysOf(c *actor.Commit) iter.Seq[*actor.Key] {
	return func(yield func(*actor.Key) bool) {
		for i := range c.Rows {
			if !yield(&c.Rows[i].Key) {
				return
			}
		}
		for i := range c.Fences {
			if !yield(&c.Fences[i].Key) {
				return
			}
		}
	}
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
		return &actor.ArgumentError{Field: CommitName(c), Problem: fmt.Sprintf(problem, args...)}
	}
	switch {
	case c.ID == actor.CommitID{}:
		return bad("has no ID; take actor.NewCommitID")
	case len(c.Rows)+len(c.Records) == 0 && c.Reminders.Empty():
		return bad("writes nothing; give it a row to write, a call to record or a reminder")
	}
	size := 0
	for i := range c.Rows {
		r := &c.Rows[i]
		if err := validateRow(c, r); err != nil {
			return err
		}
		if r.State != nil {
			size += len(r.State.Data)
		}
	}
	for i := range c.Fences {
		f := &c.Fences[i]
		if err := f.Key.Validate(); err != nil {
			return err
		}
		if f.Version > math.MaxInt64 {
			return bad("fences %s at version %d; the highest is 2^63-1", f.Key, f.Version)
		}
	}
	if k := namedTwice(c); k != nil {
		return bad("names %s twice", k)
	}
	for i := range c.Records {
		r := &c.Records[i]
		if err := validateRecord(r); err != nil {
			return err
		}
		size += RecordSize(r)
	}
	if r := recordedTwice(c); r != nil {
		return bad("records the call %s twice", r.Call())
	}
	if err := validateServices(c, bad); err != nil {
		return err
	}
	n, err := validateReminders(c, bad)
	if err != nil {
		return err
	}
	size += n
	if n, err = validateEvents(c, bad); err != nil {
		return err
	}
	if size += n; size > actor.MaxCommitBytes {
		return bad("has %d bytes of state, replies, reminders and events; at most %d are allowed", size, actor.MaxCommitBytes)
	}
	return nil
}

// validateServices checks what a commit does to services.
func validateServices(c *actor.Commit, bad func(problem string, args ...any) error) error {
	for i := range c.Services {
		v := &c.Services[i]
		if err := actor.ValidateService(v.Name); err != nil {
			return err
		}
		if v.Actor.App != c.Services[0].Actor.App {
			return bad("claims services of the apps %s and %s", v.Actor.App, c.Services[0].Actor.App)
		}
		for j := range c.Services[:i] {
			if c.Services[j].Name == v.Name {
				return bad("claims or releases the service %q twice", v.Name)
			}
		}
		at := slices.IndexFunc(c.Rows, func(w actor.RowWrite) bool { return w.Key == v.Actor })
		switch {
		case at < 0:
			return bad("claims or releases a service for %s, which it does not write", v.Actor)
		case c.Rows[at].Delete:
			return bad("claims or releases a service for %s, which it deletes", v.Actor)
		}
	}
	return nil
}

func validateRow(c *actor.Commit, r *actor.RowWrite) error {
	if err := r.Key.Validate(); err != nil {
		return err
	}
	var problem string
	switch s := r.State; {
	case r.ReadVersion > math.MaxInt64:
		problem = fmt.Sprintf("has read version %d; the highest is 2^63-1", r.ReadVersion)
	case r.Bump && (r.Delete || s != nil):
		problem = "only moves its version on, and deletes or has state, too"
	case r.NewLife && !r.Delete:
		problem = "begins a new life and does not delete the state of the old one"
	case r.Spawned && (r.ReadVersion != 0 || r.Delete || r.Bump):
		problem = "is of a spawned actor, and does not insert a live row"
	case r.MethodSet != nil && (r.Delete || r.Bump):
		problem = "changes the method set, and deletes or only moves its version on"
	case r.MethodSet != nil && *r.MethodSet != "" && actor.ValidateName("method set", *r.MethodSet) != nil:
		problem = fmt.Sprintf("has a method set that is no name: %.100q", *r.MethodSet)
	case r.NewVersion <= r.ReadVersion:
		problem = fmt.Sprintf("has new version %d, which is not above its read version %d; a row that is not written goes into Fences", r.NewVersion, r.ReadVersion)
	case r.NewVersion > math.MaxInt64:
		problem = fmt.Sprintf("has new version %d; the highest is 2^63-1", r.NewVersion)
	case r.Generation > math.MaxInt64:
		problem = fmt.Sprintf("has generation %d; the highest is 2^63-1", r.Generation)
	case s != nil && s.Format > actor.FormatEnvelope:
		problem = fmt.Sprintf("has state of the unknown format %d", s.Format)
	case s != nil && s.Format == actor.FormatNone && len(s.Data) > 0:
		problem = fmt.Sprintf("has %d bytes of state without a format", len(s.Data))
	default:
		return nil
	}
	return &actor.ArgumentError{Field: "row of " + r.Key.String() + " in a " + CommitName(c), Problem: problem}
}

// namedTwice returns an actor that a commit names twice.
func namedTwice(c *actor.Commit) *actor.Key {
	n := len(c.Rows) + len(c.Fences)
	if n < 2 {
		return nil // the usual case
	}
	seen := newKeySet(n, nil)
	for k := range keysOf(c) {
		if !seen.add(k) {
			return k
		}
	}
	return nil
}

// ValidateTurn checks what a locked turn of key returned, which is at a version, for
// drivers: it writes that row or fences it, and no other, except that it inserts those of
// actors that the turn spawned.
func ValidateTurn(c *actor.Commit, key actor.Key, version uint64) error {
	if err := ValidateGroup([]actor.Commit{*c})[0]; err != nil {
		return err
	}
	bad := func(problem string) error {
		return &actor.ArgumentError{Field: "commit of the locked turn of " + key.String(), Problem: problem}
	}
	others := len(c.Rows) + len(c.Fences) - 1
	for i := range c.Rows {
		if i > 0 && c.Rows[i].Spawned {
			others--
		}
	}
	switch anchor := c.Anchor(); {
	case others > 0:
		return bad("has other rows; a locked turn holds one, and commits of several go to Commit")
	case anchor.Key != key || anchor.Version != version:
		return bad(fmt.Sprintf("names %s at version %d; it must name the row that was locked, at version %d", anchor.Key, anchor.Version, version))
	}
	return nil
}

// recordedTwice returns a record whose call another of the commit has, too.
func recordedTwice(c *actor.Commit) *actor.IdempotencyRecord {
	if len(c.Records) < 2 {
		return nil // the usual case, which needs no map
	}
	seen := make(map[actor.KeyedCall]struct{}, len(c.Records))
	for i := range c.Records {
		call := c.Records[i].Call()
		if _, twice := seen[call]; twice {
			return &c.Records[i]
		}
		seen[call] = struct{}{}
	}
	return nil
}

func validateRecord(r *actor.IdempotencyRecord) error {
	call := r.Call()
	if err := call.Validate(); err != nil {
		return err
	}
	var problem string
	switch {
	case r.TTL < time.Microsecond:
		problem = fmt.Sprintf("has a TTL of %v; the shortest is 1µs", r.TTL)
	case r.Version > math.MaxInt64:
		problem = fmt.Sprintf("has version %d; the highest is 2^63-1", r.Version)
	case r.Mark != nil && (len(r.Reply.Data) > 0 || r.Reply.ContentType != ""):
		problem = "is a mark, and has a reply"
	case r.Mark != nil && (r.Mark.Validate() != nil || r.Mark.Actor.App != r.Actor.App):
		problem = "is a mark of " + r.Mark.String() + ", which is no call of its app"
	case len(r.Reply.ContentType) > math.MaxUint16:
		problem = fmt.Sprintf("has a content type of %d bytes; at most %d are allowed", len(r.Reply.ContentType), math.MaxUint16)
	default:
		return nil
	}
	return &actor.ArgumentError{Field: "idempotency record of " + r.Call().String(), Problem: problem}
}

// MaxDeployMessage bounds the message of a deployment, in bytes.
const MaxDeployMessage = 1024

// MaxPlacement bounds the placement of a deployment, in bytes.
const MaxPlacement = 4096

// ValidateDeployments checks what [Modules].Deploy is given, for drivers: one
// app, each type once, valid names, generations from 1 to 2^63-1, messages of
// text, placements of printable ASCII.
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
		if err := validatePlacement(d); err != nil {
			return err
		}
		types[d.Type] = struct{}{}
	}
	return nil
}

// validatePlacement bounds what is stored of a policy; package modules knows them.
func validatePlacement(d actor.Deployment) error {
	switch p := d.Placement; {
	case len(p) > MaxPlacement:
		return &actor.ArgumentError{Field: "placement of " + d.Type, Problem: fmt.Sprintf("has %d bytes; at most %d are kept", len(p), MaxPlacement)}
	case strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r > '~' }):
		return &actor.ArgumentError{Field: "placement of " + d.Type, Problem: "has characters other than printable ASCII"}
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
	for i := range calls {
		if err := calls[i].Validate(); err != nil {
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
