// Command generate bundles the console: src/main.tsx and src/style.css become what the server
// embeds. It is a module of its own, so that neither the server nor its tests depend on esbuild.
//
//	generate SRC DIST
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate SRC DIST")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(src, dist string) error {
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	result := api.Build(api.BuildOptions{
		EntryPointsAdvanced: []api.EntryPoint{
			{InputPath: filepath.Join(src, "main.tsx"), OutputPath: "console"},
			{InputPath: filepath.Join(src, "style.css"), OutputPath: "console"},
		},
		Outdir:            dist,
		Bundle:            true,
		Write:             true,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		LegalComments:     api.LegalCommentsEndOfFile,
		Format:            api.FormatESModule,
		Platform:          api.PlatformBrowser,
		Target:            api.ES2022,
		JSX:               api.JSXAutomatic,
		JSXImportSource:   "preact",
		Charset:           api.CharsetUTF8,
		LogLevel:          api.LogLevelWarning,
	})
	if n := len(result.Errors); n > 0 {
		return fmt.Errorf("%d errors", n)
	}
	page, err := os.ReadFile(filepath.Join(src, "index.html"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dist, "index.html"), page, 0o644)
}
