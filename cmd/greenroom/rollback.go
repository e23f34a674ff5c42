package main

import (
	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func rollbackCommand(c *cli) *cobra.Command {
	var to uint64
	var force bool
	var message string
	cmd := &cobra.Command{
		Use:   "rollback TYPE",
		Short: "Let an earlier deployment serve a type again",
		Long: `Let the module of an earlier deployment serve a type again, as a new generation.
Without --to, that is the newest deployment with another module; for an undeployed type,
it is the deployment before. If that module was deleted, the rollback is refused. The
placement of that deployment comes back too. The rollback takes effect at once and does
not touch state.`,
		Example: `  greenroom rollback Counter
  greenroom rollback Counter --to 3`,
		ValidArgsFunction: complete{c}.types,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			resp, err := unary(cmd.Context(), a.modules.Rollback, &greenroomv1.RollbackRequest{
				App: c.app, Type: args[0], Generation: to, Force: force, Message: message,
			})
			if err != nil {
				return withNearest(cmd.Context(), c, a, err, args, "")
			}
			if c.wantsJSON() {
				return c.writeMessage(resp)
			}
			deploymentTable(c, []*greenroomv1.Deployment{resp.Deployment})
			c.warnings(resp.Warnings)
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Uint64Var(&to, "to", 0, "`generation` to go back to, as history lists them")
	flags.BoolVar(&force, "force", false, "also to a module with an older state schema")
	messageFlag(cmd, &message)
	return cmd
}
