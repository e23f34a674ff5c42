package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func modulesCommand(c *cli) *cobra.Command {
	return group(&cobra.Command{
		Use:     "modules",
		Aliases: []string{"module"},
		Short:   "List, upload, download and delete modules",
		Long: `Look after the uploaded modules of the app. DIGEST is a module's SHA-256 in
hexadecimal, or at least 6 of its first digits.`,
		Example: `  greenroom modules list
  greenroom modules upload build/counter.wasm`,
	}, modulesListCommand(c), modulesGetCommand(c), modulesUploadCommand(c), modulesDownloadCommand(c), modulesDeleteCommand(c))
}

func modulesListCommand(c *cli) *cobra.Command {
	var page pageFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the modules of the app",
		Example: `  greenroom modules list`,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, _ []string) error {
			list, err := collect(&page, func(size int32, token string) (*greenroomv1.ListModulesResponse, error) {
				return unary(cmd.Context(), a.modules.ListModules, &greenroomv1.ListModulesRequest{App: c.app, PageSize: size, PageToken: token})
			})
			if err != nil {
				return err
			}
			rows := mapped(list.Modules, func(m *greenroomv1.Module) []string {
				return []string{short(m.Digest), typeNames(m), size(m.Size), m.Sdk, when(m.CreatedAt)}
			})
			err = c.list(cmd, list, []string{"MODULE", "TYPES", "SIZE", "SDK", "UPLOADED"}, rows,
				"app %s has no modules; upload one with `greenroom deploy`", c.app)
			if err == nil && page.token == "" && list.NextPageToken == "" && len(rows) > 1 && !c.wantsJSON() {
				var all int64
				for _, m := range list.Modules {
					all += m.Size
				}
				c.printf(c.stderr, "%d modules with %s together\n", len(rows), size(all))
			}
			return err
		}),
	}
	page.register(cmd)
	return cmd
}

var digestPrefix = regexp.MustCompile(`^[0-9a-f]{6,64}$`)

// takesDigest checks that the one argument may be the beginning of a digest.
func takesDigest(cmd *cobra.Command, args []string) error {
	if err := takes("DIGEST")(cmd, args); err != nil {
		return err
	}
	if !digestPrefix.MatchString(args[0]) {
		return usagef("%q is no digest; give 6 to 64 of its first digits, 0-9 and a-f, as \"greenroom modules list\" shows them", args[0])
	}
	return nil
}

func modulesGetCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "get DIGEST",
		Short:             "Describe a module and what it serves",
		Example:           `  greenroom modules get 3f2a9c`,
		Args:              takesDigest,
		ValidArgsFunction: complete{c}.modules,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			resp, err := unary(cmd.Context(), a.modules.GetModule, &greenroomv1.GetModuleRequest{App: c.app, Digest: args[0]})
			if err != nil {
				return err
			}
			if c.wantsJSON() {
				return c.writeMessage(resp)
			}
			m := resp.Module
			c.facts(c.stdout, "", "app", m.App, "digest", m.Digest, "size", size(m.Size), "sdk", m.Sdk, "uploaded", when(m.CreatedAt))
			serving := map[string]string{}
			for _, d := range resp.Serving {
				serving[d.Type] = fmt.Sprintf("as generation %d", d.Generation)
			}
			rows := mapped(m.Types, func(t *greenroomv1.ActorType) []string {
				return []string{t.Name, methodNames(t), t.Placement, t.Instance, schema(t.StateSchema), cmp.Or(serving[t.Name], "no")}
			})
			c.printf(c.stdout, "\n")
			c.table([]string{"TYPE", "METHODS", "PLACEMENT", "INSTANCE", "SCHEMA", "SERVED"}, rows)
			return nil
		}),
	}
}

func modulesUploadCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "upload FILE.wasm",
		Short: "Upload a module without deploying it",
		Long: `Upload a module without deploying it. The server checks it and, if it refuses
it, lists everything that is wrong with it. Uploading the same bytes again
changes nothing.`,
		Example: `  greenroom modules upload build/counter.wasm`,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			m, err := upload(cmd.Context(), c, a, args[0], "")
			if err != nil {
				return err
			}
			if c.wantsJSON() {
				return c.writeMessage(m)
			}
			c.printf(c.stdout, "%s\n", m.Digest)
			return nil
		}),
	}
}

func modulesDownloadCommand(c *cli) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "download DIGEST",
		Short: "Download a module as it was uploaded",
		Example: `  greenroom modules download 3f2a9c --file counter.wasm
  greenroom modules download 3f2a9c --file - | wasm-objdump -x -`,
		Args:              takesDigest,
		ValidArgsFunction: complete{c}.modules,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			if out == "-" && isTerminal(c.stdout) {
				return usagef("a module would upset the terminal; redirect it, or name a file with --file")
			}
			if out == "" {
				out = short(args[0]) + ".wasm"
			}
			if out == "-" {
				_, err := download(cmd.Context(), c, a, args[0], c.stdout)
				return err
			}
			n, err := downloadFile(cmd.Context(), c, a, args[0], out)
			if err != nil {
				return err
			}
			c.printf(c.stderr, "wrote %s to %s\n", size(n), out)
			return nil
		}),
	}
	cmd.Flags().StringVar(&out, "file", "", "`path` to write to, - for standard output (default DIGEST.wasm)")
	return cmd
}

// downloadFile writes a module to path. The file keeps its content if the download
// breaks off.
func downloadFile(ctx context.Context, c *cli, a *api, digest, path string) (int64, error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".greenroom-download-")
	if err != nil {
		return 0, fmt.Errorf("write module: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already if all went well
	defer tmp.Close()
	n, err := download(ctx, c, a, digest, tmp)
	if err != nil {
		return 0, err
	}
	if err := tmp.Chmod(0o644); err != nil {
		return 0, fmt.Errorf("write module: %w", err)
	}
	if err := tmp.Close(); err != nil {
		return 0, fmt.Errorf("write module: %w", err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return 0, fmt.Errorf("write module: %w", err)
	}
	return n, nil
}

func download(ctx context.Context, c *cli, a *api, digest string, w io.Writer) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	stream, err := a.modules.Download(ctx, connect.NewRequest(&greenroomv1.DownloadRequest{App: c.app, Digest: digest}))
	if err != nil {
		return 0, err
	}
	defer func() { _ = stream.Close() }()
	var want, got int64
	for stream.Receive() {
		want += stream.Msg().Size
		n, err := w.Write(stream.Msg().Chunk)
		got += int64(n)
		if err != nil {
			return got, fmt.Errorf("write module: %w", err)
		}
	}
	if err := stream.Err(); err != nil {
		return got, err
	}
	if got != want {
		return got, fmt.Errorf("the download ended after %d of %d bytes; try again", got, want)
	}
	return got, nil
}

func modulesDeleteCommand(c *cli) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:               "delete DIGEST",
		Short:             "Delete a module that serves no type",
		Long:              "Delete a module. One that serves a type is kept: deploy another, roll back, or undeploy\nthe type first.",
		Example:           `  greenroom modules delete 3f2a9c --yes`,
		Args:              takesDigest,
		ValidArgsFunction: complete{c}.modules,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			if err := c.confirm(cmd.Context(), yes, fmt.Sprintf("Delete module %s of app %s?", short(args[0]), c.app)); err != nil {
				return err
			}
			if _, err := unary(cmd.Context(), a.modules.DeleteModule, &greenroomv1.DeleteModuleRequest{App: c.app, Digest: args[0]}); err != nil {
				return err
			}
			return c.done("deleted module %s", short(args[0]))
		}),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}
