package extism

import "github.com/greenroom-run/greenroom/engine/compile"

// Config configures an [Engine]. The zero value is usable.
type Config struct {
	// EngineConfig is what the engines have in common. MaxPrograms defaults to 64,
	// and MaxInstances to 10,000: each takes two memory mappings.
	compile.EngineConfig
}

// WithDefaults returns a copy with defaults filled in.
func (c Config) WithDefaults() Config {
	c.EngineConfig = c.EngineConfig.WithDefaults(64, 10_000)
	return c
}
