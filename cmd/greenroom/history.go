package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func historyCommand(c *cli) *cobra.Command {
	var page pageFlags
	cmd := &cobra.Command{
		Use:               "history TYPE",
		Short:             "List the deployments of an actor type",
		Long:              "List the deployments of an actor type, newest first. `greenroom rollback --to`\ncan go back to each of these generations, unless its module was deleted or the\ngeneration took the type out of service.",
		Example:           `  greenroom history Counter`,
		ValidArgsFunction: complete{c}.types,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			list, err := collect(&page, func(size int32, token string) (*greenroomv1.HistoryResponse, error) {
				resp, err := unary(cmd.Context(), a.modules.History, &greenroomv1.HistoryRequest{
					App: c.app, Type: args[0], PageSize: size, PageToken: token,
				})
				if err != nil {
					err = withNearest(cmd.Context(), c, a, err, args, "")
				}
				return resp, err
			})
			if err != nil {
				return err
			}
			header := []string{"GENERATION", "MODULE", "SCHEMA", "DEPLOYED", "NOTE"}
			rows := make([][]string, len(list.Deployments))
			for i, d := range list.Deployments {
				note := ""
				if i == 0 && page.token == "" {
					note = "current"
				}
				if d.Undeployed {
					note = strings.TrimPrefix(note+", undeployed", ", ")
				}
				if d.ModuleDeleted {
					note = strings.TrimPrefix(note+", module deleted", ", ")
				}
				if d.RolledBackFrom != 0 {
					note = strings.TrimPrefix(note+fmt.Sprintf(", rolled back from %d", d.RolledBackFrom), ", ")
				}
				if d.Placement != "" {
					note = strings.TrimPrefix(note+", placement "+d.Placement, ", ")
				}
				rows[i] = []string{strconv.FormatUint(d.Generation, 10), short(d.Digest), schema(d.StateSchema), when(d.CreatedAt), note}
				if d.Message != "" {
					rows[i] = append(rows[i], strings.Join(strings.Fields(d.Message), " "))
					header = append(header[:5], "MESSAGE")
				}
			}
			return c.list(cmd, list, header, rows, "app %s has no deployments of %s", c.app, args[0])
		}),
	}
	page.register(cmd)
	return cmd
}

func schema(v uint32) string { return strconv.FormatUint(uint64(v), 10) }
