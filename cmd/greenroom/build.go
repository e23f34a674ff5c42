package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

// buildFlags are those of the commands that build.
type buildFlags struct{ toolchain string }

func (f *buildFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.toolchain, "toolchain", "", "build with tinygo, go or cargo (default: what is installed, TinyGo before Go)")
	completeFlag(cmd, "toolchain", fixedCompletion(guestbuild.TinyGo, guestbuild.Go, guestbuild.Cargo))
}

func buildCommand(c *cli) *cobra.Command {
	var f buildFlags
	var out string
	cmd := &cobra.Command{
		Use:   "build [DIR]",
		Short: "Compile a guest to a module",
		Long: `Compile the guest in DIR (default: this folder) to a WebAssembly module. The
folder's go.mod or Cargo.toml says which language it is. Go guests are built
with TinyGo where it is installed, else with Go.`,
		Example: `  greenroom build
  greenroom build shop --file shop.wasm --toolchain go`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := build(cmd.Context(), c, optional(args, "."), out, f)
			if err != nil {
				return err
			}
			if c.wantsJSON() {
				info, err := os.Stat(r.Path)
				if err != nil {
					return fmt.Errorf("read module: %w", err)
				}
				return writeJSON(c.stdout, struct {
					Path      string  `json:"path"`
					Size      int64   `json:"size"`
					Toolchain string  `json:"toolchain"`
					Seconds   float64 `json:"seconds"`
				}{r.Path, info.Size(), r.Toolchain, r.Took.Seconds()})
			}
			c.printf(c.stdout, "%s\n", r.Path)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "file", "", "`path` of the module (default: build/NAME.wasm in DIR)")
	f.register(cmd)
	return cmd
}

// optional returns the only argument, or its default.
func optional(args []string, otherwise string) string {
	if len(args) == 0 {
		return otherwise
	}
	return args[0]
}

// build builds a guest and says so on standard error, together with what the
// compiler prints, as it comes: cargo may take a minute.
func build(ctx context.Context, c *cli, dir, out string, f buildFlags) (guestbuild.Result, error) {
	log := c.stderr
	if c.wantsJSON() {
		log = io.Discard
	}
	r, err := guestbuild.Build(ctx, guestbuild.Request{Dir: dir, Out: out, Toolchain: f.toolchain, Log: log})
	if err != nil {
		return r, err
	}
	info, err := os.Stat(r.Path)
	if err != nil {
		return r, fmt.Errorf("read module: %w", err)
	}
	fmt.Fprintf(log, "%s built %s with %s in %s (%s)\n", c.paint(c.stderr, green, "✓"), r.Path, r.Toolchain, r.Took.Round(10*time.Millisecond), size(info.Size()))
	return r, nil
}
