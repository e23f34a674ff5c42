package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func (c *cli) historyCommand() *cobra.Command {
	var page pageFlags
	cmd := &cobra.Command{
		Use:               "history TYPE",
		Short:             "List the deployments of an actor type",
		Long:              "List the deployments of an actor type, newest first. Each is a generation that\n`greenroom rollback --to` can go back to, unless its module was deleted, or it took\nthe type out of service.",
		Example:           `  greenroom history Counter`,
		Args:              takes("TYPE"),
		ValidArgsFunction: c.completeTypes,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := c.api()
			if err != nil {
				return err
			}
			var deployments []*greenroomv1.Deployment
			next, err := page.collect(func(size int32, token string) (string, error) {
				ctx, cancel := context.WithTimeout(cmd.Context(), apiTimeout)
				defer cancel()
				resp, err := a.modules.History(ctx, connect.NewRequest(&greenroomv1.HistoryRequest{
					App: c.app, Type: args[0], PageSize: size, PageToken: token,
				}))
				if err != nil {
					return "", c.withNearest(ctx, a, err, args, "")
				}
				deployments = append(deployments, resp.Msg.Deployments...)
				return resp.Msg.NextPageToken, nil
			})
			if err != nil {
				return err
			}
			if c.wantsJSON() {
				return c.writeMessage(&greenroomv1.HistoryResponse{Deployments: deployments, NextPageToken: next})
			}
			header := []string{"GENERATION", "MODULE", "SCHEMA", "DEPLOYED", "NOTE"}
			rows := make([][]string, len(deployments))
			for i, d := range deployments {
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
			c.table(header, rows)
			c.more(cmd, next)
			return nil
		},
	}
	page.register(cmd)
	return cmd
}

func schema(v uint32) string { return strconv.FormatUint(uint64(v), 10) }
