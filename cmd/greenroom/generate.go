package main

import (
	"fmt"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/internal/guestgen"
)

// generateFlags are the flags of generate.
type generateFlags struct {
	lang, out, service, id string
	paths                  []string
}

func generateCommand(c *cli) *cobra.Command {
	var f generateFlags
	cmd := &cobra.Command{
		Use:   "generate --lang go --out DIR FILE.proto…",
		Short: "Generate a guest's side of a Protobuf service",
		Long: `Generate what a guest needs to serve a service of Protobuf: its messages, with a codec that
needs no reflection, so that TinyGo compiles it; an interface with a method for each rpc;
a function that registers an actor type with these methods and the service's descriptor;
and references, by which other actors call them.

Clients that are generated from the same files, for Connect, gRPC or gRPC-Web, call the actors
once the guest is deployed. They name the actor in the header Greenroom-Actor, or in the field of
their requests that --id names. docs/typed.md has more.

Files of google/protobuf need not be there. An existing file is overwritten.`,
		Example: `  greenroom generate --lang go --out cartv1 --id cart_id shop/cart/v1/cart.proto -I .
  greenroom generate --lang go --out cartv1 --service shop.cart.v1.CartService cart.proto`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("FILE.proto is missing; name the file of the service")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return generate(cmd, c, f, args) },
	}
	cmd.Flags().StringVar(&f.lang, "lang", "", "language: go, also for TinyGo")
	cmd.Flags().StringVar(&f.out, "out", "", "folder of the package that is written, whose name is the package's")
	cmd.Flags().StringArrayVarP(&f.paths, "import-path", "I", nil, "folder in which imports are looked for; may be repeated (default: that of the first file)")
	cmd.Flags().StringVar(&f.service, "service", "", "full name of the service (default: the only one of the files)")
	cmd.Flags().StringVar(&f.id, "id", "", "field of every request that has the actor's ID (default: none, clients send a header)")
	completeFlag(cmd, "lang", fixedCompletion("go"))
	return cmd
}

func generate(cmd *cobra.Command, c *cli, f generateFlags, files []string) error {
	switch {
	case f.lang == "":
		return usagef("--lang is missing; give go")
	case f.lang != "go":
		return usagef("--lang is %q; give go", f.lang)
	case f.out == "":
		return usagef("--out is missing; name the folder of the package")
	}
	out, err := filepath.Abs(f.out)
	if err != nil {
		return err
	}
	pkg := filepath.Base(out)
	if !token.IsIdentifier(pkg) {
		return usagef("%q is no name of a Go package; give a folder of another name to --out", pkg)
	}
	relative, paths, err := guestgen.Paths(files, f.paths)
	if err != nil {
		return usagef("%s", err)
	}
	service, err := guestgen.Load(cmd.Context(), guestgen.Request{Files: relative, ImportPaths: paths, Service: f.service, IDField: f.id})
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	code, err := guestgen.Go(service, pkg)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	name := strings.TrimSuffix(filepath.Base(files[0]), ".proto") + ".greenroom.go"
	path := filepath.Join(f.out, name)
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	if err := os.WriteFile(path, code, 0o644); err != nil { //nolint:gosec // source code, as others of the project
		return fmt.Errorf("generate: %w", err)
	}
	if c.wantsJSON() {
		return writeJSON(c.stdout, map[string]string{"path": path, "service": service.Name()})
	}
	fmt.Fprintf(c.stdout, "%s: the guest's side of %s\n", path, service.Name())
	return nil
}
