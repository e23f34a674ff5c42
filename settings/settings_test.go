package settings_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/settings"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

const app = "shop"

type rig struct {
	*settings.Service
	store *faultstore.Store
	log   bytes.Buffer
	mu    sync.Mutex
	now   time.Time
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

func openStore(t *testing.T) *faultstore.Store {
	t.Helper()
	s, err := embedded.Open(t.Context(), embedded.Config{Dir: "data", FS: vfs.NewMem(), MinFreeBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	f := faultstore.New(s, faultstore.Config{})
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// newRig makes a service with a key of its own; nil: without any.
func newRig(t *testing.T, s *faultstore.Store, keys *settings.Keyring) *rig {
	t.Helper()
	r := &rig{store: s, now: time.Unix(1_800_000_000, 0)}
	var err error
	r.Service, err = settings.New(settings.Config{Store: s, Keys: keys, Clock: r.clock, Logger: slog.New(slog.NewTextHandler(&r.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func keyring(t *testing.T, lines ...string) *settings.Keyring {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := settings.ReadKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

var keyA, keyB = strings.Repeat("a1", 32), strings.Repeat("b2", 32)

func (r *rig) secret(t *testing.T, name string) string {
	t.Helper()
	value, ok, err := r.Secret(t.Context(), app, name)
	if err != nil {
		return "! " + err.Error()
	}
	if !ok {
		return "none"
	}
	return string(value)
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestConfig(t *testing.T) {
	r := newRig(t, openStore(t), nil)
	get := func(app, name string) string {
		t.Helper()
		value, found, err := r.Config(t.Context(), app, name)
		ok(t, err)
		if !found {
			return "none"
		}
		return string(value)
	}
	if got := get(app, "region"); got != "none" {
		t.Errorf("got %q", got)
	}
	ok(t, r.SetConfig(t.Context(), app, "region", "eu"))
	ok(t, r.SetConfig(t.Context(), app, "empty", ""))
	if got := get(app, "region") + get(app, "empty") + get("other", "region") + get(app, "Region"); got != "eunonenone" {
		t.Errorf("got %q", got)
	}
	ok(t, r.SetConfig(t.Context(), app, "region", "us"))
	if got := get(app, "region"); got != "us" {
		t.Errorf("a change is not seen at once: %q", got)
	}
	ok(t, r.UnsetConfig(t.Context(), app, "region"))
	if got := get(app, "region"); got != "none" {
		t.Errorf("got %q", got)
	}
	if err := r.UnsetConfig(t.Context(), app, "region"); !errors.Is(err, actor.ErrSettingNotFound) {
		t.Errorf("got %v", err)
	}
	for name, err := range map[string]error{
		"name":  r.SetConfig(t.Context(), app, "a b", "x"),
		"app":   r.SetConfig(t.Context(), "", "a", "x"),
		"UTF-8": r.SetConfig(t.Context(), app, "a", "\xff"),
		"bytes": r.SetConfig(t.Context(), app, "a", strings.Repeat("x", settings.MaxValueBytes+1)),
	} {
		if argument := (*actor.ArgumentError)(nil); !errors.As(err, &argument) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range settings.MaxOfKind - 1 {
		ok(t, r.SetConfig(t.Context(), app, fmt.Sprint("n", n), "x"))
	}
	if err := r.SetConfig(t.Context(), app, "one-more", "x"); err == nil || !strings.Contains(err.Error(), "256") {
		t.Errorf("got %v", err)
	}
	ok(t, r.SetConfig(t.Context(), app, "n0", "changed"))
}

func TestSecrets(t *testing.T) {
	s := openStore(t)
	r := newRig(t, s, keyring(t, keyA))
	const value = "hush-hush-hush"
	ok(t, r.SetSecret(t.Context(), app, "key", []byte(value)))
	if got := r.secret(t, "key"); got != value {
		t.Errorf("got %q", got)
	}
	stored, err := s.Settings(t.Context(), app)
	ok(t, err)
	if len(stored) != 1 || bytes.Contains(stored[0].Value, []byte(value)) || len(stored[0].Value) > len(value)+64 {
		t.Errorf("stored is %q", stored[0].Value)
	}
	// The same value sealed twice looks different.
	first := stored[0].Value
	ok(t, r.SetSecret(t.Context(), app, "key", []byte(value)))
	stored, err = s.Settings(t.Context(), app)
	ok(t, err)
	if bytes.Equal(first, stored[0].Value) {
		t.Error("a secret set twice is sealed alike")
	}
	// A row that was moved to another name or app does not open.
	moved := stored[0]
	moved.Name = "another"
	ok(t, s.PutSetting(t.Context(), moved))
	moved.Name, moved.App = "key", "other"
	ok(t, s.PutSetting(t.Context(), moved))
	r.pass(time.Minute)
	if got := r.secret(t, "another"); !strings.Contains(got, "damaged") {
		t.Errorf("another name: %q", got)
	}
	if _, _, err := r.Secret(t.Context(), "other", "key"); err == nil {
		t.Error("another app's secret opened")
	}
	// Nor does a damaged one, whatever is wrong with it.
	for n := range first {
		bad := bytes.Clone(first)
		bad[n] ^= 1
		ok(t, s.PutSetting(t.Context(), actor.Setting{App: app, Kind: actor.SettingSecret, Name: "key", Value: bad}))
		r.pass(time.Minute)
		if got := r.secret(t, "key"); !strings.HasPrefix(got, "! ") {
			t.Fatalf("with byte %d changed: %q", n, got)
		}
	}
	for n := range first {
		ok(t, s.PutSetting(t.Context(), actor.Setting{App: app, Kind: actor.SettingSecret, Name: "key", Value: first[:n]}))
		r.pass(time.Minute)
		if got := r.secret(t, "key"); !strings.HasPrefix(got, "! ") {
			t.Fatalf("cut to %d bytes: %q", n, got)
		}
	}
	for name, err := range map[string]error{
		"empty": r.SetSecret(t.Context(), app, "a", nil),
		"bytes": r.SetSecret(t.Context(), app, "a", bytes.Repeat([]byte(value), 10_000)),
		"name":  r.SetSecret(t.Context(), app, "a/b", []byte(value)),
	} {
		if argument := (*actor.ArgumentError)(nil); !errors.As(err, &argument) || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), value) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if strings.Contains(r.log.String(), value) || !strings.Contains(r.log.String(), "name=key") {
		t.Errorf("the log has %s", r.log.String())
	}
}

// TestReseal rotates a key: afterwards the old one opens nothing that is needed.
func TestReseal(t *testing.T) {
	s := openStore(t)
	keyC := strings.Repeat("c3", 32)
	apps := []string{"a", "b", "b.c"}
	for n, app := range apps {
		ok(t, newRig(t, s, keyring(t, keyA)).SetSecret(t.Context(), app, "old", fmt.Append(nil, "old", n)))
		ok(t, newRig(t, s, keyring(t, keyB)).SetSecret(t.Context(), app, "new", fmt.Append(nil, "new", n)))
		ok(t, newRig(t, s, keyring(t, keyC)).SetSecret(t.Context(), app, "lost", []byte("lost")))
		ok(t, newRig(t, s, nil).SetConfig(t.Context(), app, "old", "config"))
	}
	if done, err := newRig(t, s, keyring(t, keyB)).Reseal(t.Context()); done != (settings.Resealed{}) || err != nil {
		t.Errorf("with one key: %+v, %v", done, err)
	}
	r := newRig(t, s, keyring(t, keyB, keyA))
	if value, _, err := r.Secret(t.Context(), "a", "old"); string(value) != "old0" || err != nil {
		t.Errorf("before: %q, %v", value, err)
	}
	if done, err := r.Reseal(t.Context()); done != (settings.Resealed{Sealed: 3, Unreadable: 3}) || err != nil {
		t.Errorf("with both: %+v, %v", done, err)
	}
	if done, err := r.Reseal(t.Context()); done != (settings.Resealed{Unreadable: 3}) || err != nil {
		t.Errorf("again: %+v, %v", done, err)
	}
	for n, app := range apps {
		for _, service := range []*rig{r, newRig(t, s, keyring(t, keyB))} {
			for _, name := range []string{"old", "new"} {
				value, _, err := service.Secret(t.Context(), app, name)
				if string(value) != fmt.Sprint(name, n) || err != nil {
					t.Errorf("%s %s: %q, %v", app, name, value, err)
				}
			}
		}
		value, _, err := newRig(t, s, keyring(t, keyC)).Secret(t.Context(), app, "lost")
		if string(value) != "lost" || err != nil {
			t.Errorf("%s, of another key: %q, %v", app, value, err)
		}
		if value, _, err := r.Config(t.Context(), app, "old"); string(value) != "config" || err != nil {
			t.Errorf("%s config: %q, %v", app, value, err)
		}
	}
}

// meanwhile is a store in which something happens before a setting is replaced.
type meanwhile struct {
	kept
	do func()
}

type kept = store.Settings // its name is that of one of its methods

func (m meanwhile) ReplaceSetting(ctx context.Context, set actor.Setting, was []byte) (bool, error) {
	m.do()
	return m.kept.ReplaceSetting(ctx, set, was)
}

func TestResealUndoesNothing(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *rig){
		"set":   func(t *testing.T, r *rig) { ok(t, r.SetSecret(t.Context(), app, "key", []byte("changed"))) },
		"unset": func(t *testing.T, r *rig) { ok(t, r.UnsetSecret(t.Context(), app, "key")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			before := newRig(t, s, keyring(t, keyA))
			ok(t, before.SetSecret(t.Context(), app, "key", []byte("first")))
			service, err := settings.New(settings.Config{Store: meanwhile{s, func() { change(t, before) }}, Keys: keyring(t, keyB, keyA)})
			ok(t, err)
			if done, err := service.Reseal(t.Context()); done.Sealed != 0 || err != nil {
				t.Errorf("%+v, %v", done, err)
			}
			if got, want := before.secret(t, "key"), map[string]string{"set": "changed", "unset": "none"}[name]; got != want {
				t.Errorf("the secret is %q, want %q", got, want)
			}
		})
	}
}

func TestRotation(t *testing.T) {
	s := openStore(t)
	ok(t, newRig(t, s, keyring(t, keyA)).SetSecret(t.Context(), app, "old", []byte("1")))
	both := newRig(t, s, keyring(t, "# the new one", keyB, "", keyA))
	ok(t, both.SetSecret(t.Context(), app, "new", []byte("2")))
	if got := both.secret(t, "old") + both.secret(t, "new"); got != "12" {
		t.Errorf("with both keys: %q", got)
	}
	after := newRig(t, s, keyring(t, keyB))
	if got := after.secret(t, "new"); got != "2" {
		t.Errorf("with the new key: %q", got)
	}
	if got := after.secret(t, "old"); !strings.Contains(got, "--secrets-key-file") {
		t.Errorf("the old secret with the new key: %q", got)
	}
	list, err := after.List(t.Context(), app)
	ok(t, err)
	if len(list.Secrets) != 2 || !list.Secrets[0].Readable || list.Secrets[1].Readable || list.Secrets[0].Key == list.Secrets[1].Key {
		t.Errorf("listed %+v", list.Secrets)
	}
	without := newRig(t, s, nil)
	if err := without.SetSecret(t.Context(), app, "x", []byte("3")); !errors.Is(err, actor.ErrNoSecretsKey) || !strings.Contains(err.Error(), "--secrets-key-file") {
		t.Errorf("without a key: %v", err)
	}
	if _, _, err := without.Secret(t.Context(), app, "new"); !errors.Is(err, actor.ErrNoSecretsKey) {
		t.Errorf("without a key: %v", err)
	}
}

func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "secrets.key")
	s := openStore(t)
	first, err := settings.MakeKeyFile(path)
	ok(t, err)
	ok(t, newRig(t, s, first).SetSecret(t.Context(), app, "key", []byte("1")))
	second, err := settings.MakeKeyFile(path)
	ok(t, err)
	if got := newRig(t, s, second).secret(t, "key"); got != "1" {
		t.Errorf("the file was made anew: %q", got)
	}
	info, err := os.Stat(path)
	ok(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	for text, want := range map[string]string{"": "no key", "# nothing\n": "no key", keyA + "\nabc": "line 2", keyA[:62]: "line 1", "zz" + keyA[2:]: "line 1"} {
		ok(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := settings.ReadKeyFile(path)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), keyA[:20]) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := settings.ReadKeyFile(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestHTTPGrants(t *testing.T) {
	r := newRig(t, openStore(t), nil)
	for host, want := range map[string]string{"API.example.com": "api.example.com", "http://*:*": "http://*:*"} {
		got, err := r.GrantHTTP(t.Context(), app, actor.HTTPGrant{Host: host, Private: host != "http://*:*"})
		if err != nil || got != want {
			t.Errorf("%s: %q, %v", host, got, err)
		}
	}
	got, err := r.HTTP(t.Context(), app)
	if want := []actor.HTTPGrant{{Host: "api.example.com", Private: true}, {Host: "http://*:*"}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := r.HTTP(t.Context(), "other"); err != nil || len(got) > 0 {
		t.Errorf("another app: %v, %v", got, err)
	}
	// Granting again changes how it is meant.
	_, err = r.GrantHTTP(t.Context(), app, actor.HTTPGrant{Host: "https://api.example.com:443"})
	ok(t, err)
	ok(t, r.RevokeHTTP(t.Context(), app, "http://*:*"))
	got, err = r.HTTP(t.Context(), app)
	if want := []actor.HTTPGrant{{Host: "api.example.com"}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if err := r.RevokeHTTP(t.Context(), app, "http://*:*"); !errors.Is(err, actor.ErrSettingNotFound) {
		t.Errorf("got %v", err)
	}
	for _, host := range []string{"", "ftp://a", "127.1", "a/b"} {
		if _, err := r.GrantHTTP(t.Context(), app, actor.HTTPGrant{Host: host}); err == nil {
			t.Errorf("%q was granted", host)
		}
	}
}

func TestMissing(t *testing.T) {
	r := newRig(t, openStore(t), keyring(t, keyA))
	uses := abi.Capabilities{HTTP: []string{"a.example", "*", "http://b.example"}, Config: []string{"c", "d"}, Secrets: []string{"e", "c"}}
	missing := func() abi.Capabilities {
		t.Helper()
		m, err := r.Missing(t.Context(), app, uses)
		ok(t, err)
		return m
	}
	if got := missing(); !reflect.DeepEqual(got, uses) {
		t.Errorf("got %+v", got)
	}
	_, err := r.GrantHTTP(t.Context(), app, actor.HTTPGrant{Host: "*.example"})
	ok(t, err)
	ok(t, r.SetConfig(t.Context(), app, "c", "1"))
	ok(t, r.SetSecret(t.Context(), app, "e", []byte("1")))
	if got, want := missing(), (abi.Capabilities{HTTP: []string{"http://b.example"}, Config: []string{"d"}, Secrets: []string{"c"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Changes of another process are seen after MaxAge. While the store is away, what
// was read goes on for MaxStale.
func TestAges(t *testing.T) {
	s := openStore(t)
	r, elsewhere := newRig(t, s, nil), newRig(t, s, nil)
	get := func() string {
		t.Helper()
		value, found, err := r.Config(t.Context(), app, "a")
		switch {
		case err != nil:
			return err.Error()
		case !found:
			return "none"
		}
		return string(value)
	}
	if got := get(); got != "none" {
		t.Errorf("got %q", got)
	}
	ok(t, elsewhere.SetConfig(t.Context(), app, "a", "1"))
	r.pass(time.Second)
	if got := get(); got != "none" {
		t.Errorf("read too often: %q", got)
	}
	r.pass(time.Second)
	if got := get(); got != "1" {
		t.Errorf("not read again: %q", got)
	}
	ok(t, elsewhere.UnsetConfig(t.Context(), app, "a"))
	s.Arm(faultstore.SettingFails, 2)
	r.pass(time.Minute - time.Nanosecond)
	if got := get(); got != "1" {
		t.Errorf("while the store is away: %q", got)
	}
	r.pass(time.Nanosecond)
	if got := get(); !strings.Contains(got, "read the settings of the app shop") {
		t.Errorf("after a minute: %q", got)
	}
	if got := get(); got != "none" {
		t.Errorf("when it is back: %q", got)
	}
	if n := s.Fired(faultstore.SettingFails); n != 2 {
		t.Errorf("the store failed %d times", n)
	}
}

func TestManyReadersReadOnce(t *testing.T) {
	s := openStore(t)
	counted := &counting{Store: s}
	now := time.Now() // and it stays that
	service, err := settings.New(settings.Config{Store: counted, Clock: func() time.Time { return now }})
	ok(t, err)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, _, err := service.Config(t.Context(), app, "a"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if counted.n != 1 {
		t.Errorf("the store was read %d times", counted.n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := service.Config(ctx, app, "a"); err != nil {
		t.Errorf("from memory: %v", err)
	}
}

type counting struct {
	store.Store
	mu sync.Mutex
	n  int
}

func (c *counting) Settings(ctx context.Context, app string) ([]actor.Setting, error) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.Store.Settings(ctx, app)
}
