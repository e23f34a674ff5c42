package storetest

import (
	"fmt"
	"slices"

	"github.com/greenroom-run/greenroom/actor"
)

// settingFixture tests settings.
type settingFixture struct{ *base }

func (f *settingFixture) set(kind actor.SettingKind, name, value string) {
	f.Helper()
	f.ok(f.s.PutSetting(f.ctx(), actor.Setting{App: f.app, Kind: kind, Name: name, Value: []byte(value)}))
}

// settings checks what the app was given, as "kind name value".
func (f *settingFixture) settings(want ...string) {
	f.Helper()
	list, err := f.s.Settings(f.ctx(), f.app)
	f.ok(err)
	var got []string
	for _, s := range list {
		if s.App != f.app || s.UpdatedAt.IsZero() {
			f.Fatalf("incomplete setting %+v", s)
		}
		got = append(got, fmt.Sprintf("%s %s %s", s.Kind, s.Name, s.Value))
	}
	if !slices.Equal(got, want) {
		f.Fatalf("settings are %q, want %q", got, want)
	}
}
