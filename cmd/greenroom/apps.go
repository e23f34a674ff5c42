package main

import (
	"strconv"

	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func appsCommand(c *cli) *cobra.Command {
	return group(&cobra.Command{
		Use:     "apps",
		Aliases: []string{"app"},
		Short:   "List apps, and bound their calls",
		Long: `List the apps of the server, and bound what their calls take. An app is a namespace,
which every command takes with --app; it exists as soon as something names it.`,
		Example: `  greenroom apps list
  greenroom apps set shop --quota turns=1000/s`,
	}, appsListCommand(c), appsGetCommand(c), appsSetCommand(c))
}

func appsListCommand(c *cli) *cobra.Command {
	var page pageFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the apps with what they have",
		Long: `List the apps that have modules, or ever had a type deployed, with their numbers of
served types and stored modules, and the time of the last deployment. A token that
is limited to one app may not list apps.`,
		Example: `  greenroom apps list`,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, _ []string) error {
			list, err := collect(&page, func(size int32, token string) (*greenroomv1.ListAppsResponse, error) {
				return unary(cmd.Context(), a.modules.ListApps, &greenroomv1.ListAppsRequest{PageSize: size, PageToken: token})
			})
			if err != nil {
				return err
			}
			rows := mapped(list.Apps, func(a *greenroomv1.App) []string {
				return []string{a.Name, strconv.FormatInt(a.Types, 10), strconv.FormatInt(a.Modules, 10), when(a.DeployedAt)}
			})
			return c.list(cmd, list, []string{"APP", "TYPES", "MODULES", "DEPLOYED"}, rows,
				"the server has no apps; deploy a module with `greenroom deploy --app NAME`")
		}),
	}
	page.register(cmd)
	return cmd
}
