package wasm

import "github.com/greenroom-run/greenroom/engine/compile"

// Config configures an [Engine]. The zero value is usable.
type Config struct {
	// EngineConfig is what the engines have in common. MaxPrograms defaults to 256.
	// MaxInstances defaults to 500,000: 32 TiB of the 128 TiB of addresses that a
	// process has, at the default limit of 64 MiB each.
	compile.EngineConfig
}

// WithDefaults returns a copy with defaults filled in.
func (c Config) WithDefaults() Config {
	c.EngineConfig = c.EngineConfig.WithDefaults(256, 500_000)
	return c
}
