package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

var settings = suite{"Settings", []testCase{
	{"the last write wins, and carries the store's time", func(f *fixture) {
		f.settings()
		before := f.now()
		f.set(actor.SettingConfig, "region", "eu")
		f.set(actor.SettingConfig, "region", "us")
		after := f.now()
		f.settings("config region us")
		list, err := f.s.Settings(f.ctx(), f.app)
		f.ok(err)
		if at := list[0].UpdatedAt; at.Before(before) || at.After(after) {
			f.Fatalf("UpdatedAt is %v, not between %v and %v", at, before, after)
		}
	}},
	{"they come in order of kind, then name, by bytes", func(f *fixture) {
		for _, name := range []string{"b", "a", "B", "a.b", "a-b", "ä"} {
			f.set(actor.SettingConfig, name, "1")
		}
		f.set(actor.SettingSecret, "a", "2")
		f.set(actor.SettingHTTP, "*.example.com:443", "3")
		f.settings("config B 1", "config a 1", "config a-b 1", "config a.b 1", "config b 1", "config ä 1", "http *.example.com:443 3", "secret a 2")
	}},
	{"kinds and apps are kept apart", func(f *fixture) {
		f.set(actor.SettingConfig, "a", "ours")
		f.set(actor.SettingSecret, "a", "secret")
		f.ok(f.s.PutSetting(f.ctx(), actor.Setting{App: f.app + ".other", Kind: actor.SettingConfig, Name: "a", Value: []byte("theirs")}))
		f.ok(f.s.DeleteSetting(f.ctx(), f.app+".other", actor.SettingConfig, "a"))
		f.ok(f.s.DeleteSetting(f.ctx(), f.app, actor.SettingSecret, "a"))
		f.settings("config a ours")
	}},
	{"a replacement applies where the value is the one that it names", func(f *fixture) {
		replace := func(was, value string, want bool) {
			f.Helper()
			got, err := f.s.ReplaceSetting(f.ctx(), actor.Setting{App: f.app, Kind: actor.SettingSecret, Name: "s", Value: []byte(value)}, []byte(was))
			f.ok(err)
			if got != want {
				f.Fatalf("replacing %q: %t, want %t", was, got, want)
			}
		}
		replace("", "1", false)
		f.settings()
		f.set(actor.SettingSecret, "s", "1")
		f.set(actor.SettingConfig, "s", "other kind")
		replace("2", "3", false)
		replace("1", "3", true)
		replace("1", "4", false)
		f.settings("config s other kind", "secret s 3")
		replace("3", "", true)
		replace("", "5", true)
		f.settings("config s other kind", "secret s 5")
	}},
	{"of replacements of one value at once, one applies", func(f *fixture) {
		f.set(actor.SettingSecret, "s", "old")
		var applied atomic.Int32
		f.inParallel(4, func(i int) error {
			ok, err := f.s.ReplaceSetting(f.ctx(), actor.Setting{App: f.app, Kind: actor.SettingSecret, Name: "s", Value: fmt.Append(nil, i)}, []byte("old"))
			if ok {
				applied.Add(1)
			}
			return err
		})
		if n := applied.Load(); n != 1 {
			f.Fatalf("%d have applied", n)
		}
	}},
	{"the apps with settings come in order, page by page", func(f *fixture) {
		ours := []string{f.app, f.app + "-b", f.app + ".a", f.app + "A", f.app + "a"}
		for _, app := range slices.Backward(ours) {
			for _, kind := range []actor.SettingKind{actor.SettingConfig, actor.SettingSecret} {
				f.ok(f.s.PutSetting(f.ctx(), actor.Setting{App: app, Kind: kind, Name: "a"}))
			}
		}
		var got []string
		for after := ""; ; {
			page, err := f.s.SettingApps(f.ctx(), after, 2)
			f.ok(err)
			if len(page) == 0 {
				break
			}
			after = page[len(page)-1]
			for _, app := range page {
				if strings.HasPrefix(app, f.app) { // other tests have apps of their own
					got = append(got, app)
				}
			}
		}
		if !slices.Equal(got, ours) {
			f.Fatalf("the apps are %q, want %q", got, ours)
		}
		_, err := f.s.SettingApps(f.ctx(), "", 0)
		f.argument(err)
	}},
	{"deleting what is not there is no error, and what is deleted can be set again", func(f *fixture) {
		f.ok(f.s.DeleteSetting(f.ctx(), f.app, actor.SettingConfig, "a"))
		f.set(actor.SettingConfig, "a", "1")
		f.ok(f.s.DeleteSetting(f.ctx(), f.app, actor.SettingConfig, "a"))
		f.settings()
		f.set(actor.SettingConfig, "a", "2")
		f.settings("config a 2")
	}},
	{"any bytes are kept, and owned", func(f *fixture) {
		value := bytes.Repeat([]byte{0, 0xff, '\''}, store.MaxSettingValue/3)
		want := bytes.Clone(value)
		f.ok(f.s.PutSetting(f.ctx(), actor.Setting{App: f.app, Kind: actor.SettingSecret, Name: "s", Value: value}))
		clear(value)
		for range 2 {
			list, err := f.s.Settings(f.ctx(), f.app)
			f.ok(err)
			if len(list) != 1 || !bytes.Equal(list[0].Value, want) {
				f.Fatal("other bytes came back")
			}
			clear(list[0].Value)
		}
		f.ok(f.s.PutSetting(f.ctx(), actor.Setting{App: f.app, Kind: actor.SettingSecret, Name: "s"}))
		f.settings("secret s ")
	}},
	{"a malformed one is refused", func(f *fixture) {
		good := actor.Setting{App: f.app, Kind: actor.SettingConfig, Name: "a"}
		for _, change := range []func(*actor.Setting){
			func(s *actor.Setting) { s.App = "" },
			func(s *actor.Setting) { s.Kind = "a b" },
			func(s *actor.Setting) { s.Name = "" },
			func(s *actor.Setting) { s.Name = "a\x00b" },
			func(s *actor.Setting) { s.Name = "\xff" },
			func(s *actor.Setting) { s.Name = strings.Repeat("n", store.MaxSettingName+1) },
			func(s *actor.Setting) { s.Value = make([]byte, store.MaxSettingValue+1) },
		} {
			bad := good
			change(&bad)
			f.argument(f.s.PutSetting(f.ctx(), bad))
			_, err := f.s.ReplaceSetting(f.ctx(), bad, nil)
			f.argument(err)
			if bad.Value == nil {
				f.argument(f.s.DeleteSetting(f.ctx(), bad.App, bad.Kind, bad.Name))
			}
		}
		_, err := f.s.Settings(f.ctx(), "")
		f.argument(err)
		f.settings()
	}},
	{"writers at once leave one of their values", func(f *fixture) {
		f.inParallel(4, func(i int) error {
			for range 10 {
				if err := f.s.PutSetting(f.ctx(), actor.Setting{App: f.app, Kind: actor.SettingConfig, Name: "a", Value: fmt.Append(nil, i)}); err != nil {
					return err
				}
			}
			return nil
		})
		list, err := f.s.Settings(f.ctx(), f.app)
		f.ok(err)
		if len(list) != 1 || !strings.Contains("0123", string(list[0].Value)) {
			f.Fatalf("settings are %v", list)
		}
	}},
}}
