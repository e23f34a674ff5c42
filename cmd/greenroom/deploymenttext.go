package main

import (
	"strconv"

	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// messageFlag adds --message to a command that changes what serves a type.
func messageFlag(cmd *cobra.Command, message *string) {
	cmd.Flags().StringVarP(message, "message", "m", "", "`text` that history keeps with the change: why, a version, a ticket")
}

// deploymentTable shows what serves types from now on.
func deploymentTable(c *cli, ds []*greenroomv1.Deployment) {
	header := []string{"TYPE", "GENERATION", "MODULE", "SCHEMA"}
	rows := make([][]string, len(ds))
	for i, d := range ds {
		rows[i] = []string{d.Type, strconv.FormatUint(d.Generation, 10), short(d.Digest), schema(d.StateSchema)}
		if d.Placement != "" {
			rows[i] = append(rows[i], d.Placement)
			header = append(header[:4], "PLACEMENT")
		}
	}
	c.table(header, rows)
}
