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
		Use:   "generate --lang LANGUAGE --out PATH FILE.proto…",
		Short: "Generate a guest's side of a Protobuf service",
		Long: `Generate what a guest needs to serve a service of Protobuf: its messages with their codec, the
methods that an actor type has for its rpcs, as an interface in Go and a trait in Rust, what
registers them with the service's descriptor, and references, by which other actors call them.
For each rpc that returns a stream, a function publishes the events that its clients get.

--lang go writes a package for Go and TinyGo, whose codec needs no reflection, into the folder
--out. --lang rust writes the module whose file --out is. Its codec is that of the crate prost,
version 0.12 or newer, which the guest's Cargo.toml must have.

Clients that are generated from the same files, for Connect, gRPC or gRPC-Web, call the actors
once the guest is deployed. They name the actor in the header Greenroom-Actor, or in the field of
their requests that --id names. docs/typed.md has more.

Files of google/protobuf need not be there. An existing file is overwritten.`,
		Example: `  greenroom generate --lang go --out cartv1 --id cart_id shop/cart/v1/cart.proto -I .
  greenroom generate --lang go --out cartv1 --service shop.cart.v1.CartService cart.proto
  greenroom generate --lang rust --out src/cartv1.rs --id cart_id shop/cart/v1/cart.proto -I .`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("FILE.proto is missing; name the file of the service")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return generate(cmd, c, f, args) },
	}
	cmd.Flags().StringVar(&f.lang, "lang", "", "language: go, also for TinyGo, or rust")
	cmd.Flags().StringVar(&f.out, "out", "", "for go the folder of the package, whose name is the package's; for rust the file of the module, NAME.rs")
	cmd.Flags().StringArrayVarP(&f.paths, "import-path", "I", nil, "folder in which imports are looked for; may be repeated (default: that of the first file)")
	cmd.Flags().StringVar(&f.service, "service", "", "full name of the service (default: the only one of the files)")
	cmd.Flags().StringVar(&f.id, "id", "", "field of every request that has the actor's ID (default: none, clients send a header)")
	completeFlag(cmd, "lang", fixedCompletion("go", "rust"))
	return cmd
}

func generate(cmd *cobra.Command, c *cli, f generateFlags, files []string) error {
	switch {
	case f.lang == "":
		return usagef("--lang is missing; give go or rust")
	case f.lang != "go" && f.lang != "rust":
		return usagef("--lang is %q; give go or rust", f.lang)
	case f.out == "" && f.lang == "go":
		return usagef("--out is missing; name the folder of the package")
	case f.out == "":
		return usagef("--out is missing; name the file of the module, as src/cartv1.rs")
	}
	path := f.out
	write := guestgen.Rust
	if f.lang == "go" {
		out, err := filepath.Abs(f.out)
		if err != nil {
			return err
		}
		pkg := filepath.Base(out)
		if !token.IsIdentifier(pkg) {
			return usagef("%q is no name of a Go package; give a folder of another name to --out", pkg)
		}
		path = filepath.Join(f.out, strings.TrimSuffix(filepath.Base(files[0]), ".proto")+".greenroom.go")
		write = func(s *guestgen.Service) ([]byte, error) { return guestgen.Go(s, pkg) }
	} else if filepath.Ext(path) != ".rs" {
		return usagef("--out is %q; name the file of the module, as src/cartv1.rs", f.out)
	}
	relative, paths, err := guestgen.Paths(files, f.paths)
	if err != nil {
		return usagef("%s", err)
	}
	service, err := guestgen.Load(cmd.Context(), guestgen.Request{Files: relative, ImportPaths: paths, Service: f.service, IDField: f.id})
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	code, err := write(service)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
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
