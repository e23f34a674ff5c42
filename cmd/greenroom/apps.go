package main

import (
	"context"
	"strconv"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func (c *cli) appsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:     "apps",
		Aliases: []string{"app"},
		Short:   "List apps",
		Long: `List the apps of the server. An app is a namespace, which every command takes
with --app; it is there as soon as something names it.`,
		Example: `  greenroom apps list`,
	}, c.appsListCommand())
}

func (c *cli) appsListCommand() *cobra.Command {
	var page pageFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the apps with what they have",
		Long: `List the apps that have modules, or ever had a type deployed, with the number of
types that are served, of modules that are stored, and when what serves a type
was changed last. A token of one app may not.`,
		Example: `  greenroom apps list`,
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := c.api()
			if err != nil {
				return err
			}
			var apps []*greenroomv1.App
			next, err := page.collect(func(size int32, token string) (string, error) {
				ctx, cancel := context.WithTimeout(cmd.Context(), apiTimeout)
				defer cancel()
				resp, err := a.modules.ListApps(ctx, connect.NewRequest(&greenroomv1.ListAppsRequest{PageSize: size, PageToken: token}))
				if err != nil {
					return "", err
				}
				apps = append(apps, resp.Msg.Apps...)
				return resp.Msg.NextPageToken, nil
			})
			if err != nil {
				return err
			}
			if c.wantsJSON() {
				return c.writeMessage(&greenroomv1.ListAppsResponse{Apps: apps, NextPageToken: next})
			}
			if len(apps) == 0 {
				c.printf(c.stderr, "the server has no apps; deploy a module with `greenroom deploy --app NAME`\n")
				return nil
			}
			rows := make([][]string, len(apps))
			for i, a := range apps {
				rows[i] = []string{a.Name, strconv.FormatInt(a.Types, 10), strconv.FormatInt(a.Modules, 10), when(a.DeployedAt)}
			}
			c.table([]string{"APP", "TYPES", "MODULES", "DEPLOYED"}, rows)
			c.more(cmd, next)
			return nil
		},
	}
	page.register(cmd)
	return cmd
}
