package main

import (
	"strconv"

	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func undeployCommand(c *cli) *cobra.Command {
	var message string
	cmd := &cobra.Command{
		Use:   "undeploy TYPE…",
		Short: "Take actor types out of service",
		Long: `Take actor types out of service, all of them or none: calls get type_not_found from
the next turn on. The states of their actors are kept, and can be shown and deleted;
the history has the undeployment, and
` + "`greenroom rollback`" + ` brings a type back. A module that serves nothing else can be
deleted then.`,
		Example: `  greenroom undeploy Cart
  greenroom undeploy Cart Order --app shop --message 'moved to app store'`,
		ValidArgsFunction: complete{c}.types,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			resp, err := unary(cmd.Context(), a.modules.Undeploy, &greenroomv1.UndeployRequest{App: c.app, Types: args, Message: message})
			if err != nil {
				return withNearest(cmd.Context(), c, a, err, args, "")
			}
			if c.wantsJSON() {
				return c.writeMessage(resp)
			}
			rows := mapped(resp.Deployments, func(d *greenroomv1.Deployment) []string {
				return []string{d.Type, strconv.FormatUint(d.Generation, 10), when(d.CreatedAt)}
			})
			c.table([]string{"TYPE", "GENERATION", "UNDEPLOYED"}, rows)
			c.warnings(resp.Warnings)
			c.printf(c.stderr, "state is kept; `greenroom rollback TYPE` brings a type back\n")
			return nil
		}),
	}
	messageFlag(cmd, &message)
	return cmd
}
