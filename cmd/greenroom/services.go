package main

import (
	"fmt"

	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func servicesCommand(c *cli) *cobra.Command {
	return group(&cobra.Command{
		Use: "services", Short: "Names that stand for actors",
		Long: `Services of the app: names that actors have claimed, and by which other actors call them
and send them messages.`,
		Example: `  greenroom services list
  greenroom services get mailer`,
	}, servicesListCommand(c), servicesGetCommand(c))
}

func servicesListCommand(c *cli) *cobra.Command {
	var page pageFlags
	var prefix string
	cmd := &cobra.Command{
		Use:   "list",
		Args:  cobra.NoArgs,
		Short: "List the services of the app",
		Long:  "List the services of the app in byte order of their names, with the actors that stand for them.",
		Example: `  greenroom services list
  greenroom services list --prefix workers/`,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, _ []string) error {
			list, err := collect(&page, func(size int32, token string) (*greenroomv1.ListServicesResponse, error) {
				return unary(cmd.Context(), a.actors.ListServices, &greenroomv1.ListServicesRequest{App: c.app, Prefix: prefix, PageSize: size, PageToken: token})
			})
			if err != nil {
				return err
			}
			rows := mapped(list.Services, func(v *greenroomv1.Service) []string {
				return []string{v.Name, v.Actor.GetType(), v.Actor.GetId(), when(v.ClaimedAt)}
			})
			return c.list(cmd, list, []string{"SERVICE", "TYPE", "ID", "CLAIMED"}, rows, "app %s has no services", c.app)
		}),
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only names that begin with this `text`")
	page.register(cmd)
	return cmd
}

func servicesGetCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "get SERVICE",
		Args:    cobra.ExactArgs(1),
		Short:   "Say which actor stands for a service",
		Example: `  greenroom services get mailer`,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			found, err := unary(cmd.Context(), a.actors.ListServices, &greenroomv1.ListServicesRequest{App: c.app, Prefix: args[0], PageSize: 1})
			if err != nil {
				return err
			}
			if len(found.Services) == 0 || found.Services[0].Name != args[0] {
				return fmt.Errorf("no actor of app %s stands for the service %q", c.app, args[0])
			}
			v := found.Services[0]
			if c.wantsJSON() {
				return c.writeMessage(v)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", v.Actor.GetType(), v.Actor.GetId())
			return err
		}),
	}
}
