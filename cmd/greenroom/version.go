package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker in builds that are released.
var version string

func versionCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this binary",
		Example: `  greenroom version -o json`,
		RunE: func(*cobra.Command, []string) error {
			v, commit := buildVersion()
			if c.wantsJSON() {
				return writeJSON(c.stdout, map[string]string{
					"version": v, "commit": commit, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			c.printf(c.stdout, "greenroom %s (%s, %s/%s)\n", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

func binaryVersion() string {
	v, _ := buildVersion()
	return v
}

// buildVersion returns what the linker set, else what go install recorded.
func buildVersion() (v, commit string) {
	v = version
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v, ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	if v == "" {
		v = info.Main.Version
	}
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	return v, commit
}
