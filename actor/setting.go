package actor

import "time"

// SettingKind says what a [Setting] gives to an app.
type SettingKind string

// The kinds of settings.
const (
	// SettingConfig is a configuration value.
	SettingConfig SettingKind = "config"
	// SettingSecret is a secret. Its stored value is encrypted.
	SettingSecret SettingKind = "secret"
	// SettingHTTP is a host that guests may send requests to.
	SettingHTTP SettingKind = "http"
)

// Setting is one setting of an app, for its guests to use, or one of its [Rules]. Package settings
// says what its value is.
type Setting struct {
	App       string
	Kind      SettingKind
	Name      string
	Value     []byte
	UpdatedAt time.Time
}
