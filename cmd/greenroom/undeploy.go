package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/actor"
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

// messageFlag adds --message to a command that changes what serves a type.
func messageFlag(cmd *cobra.Command, message *string) {
	cmd.Flags().StringVarP(message, "message", "m", "", "`text` that history keeps with the change: why, a version, a ticket")
}

// hintedError is an error of the server with what to do about it.
type hintedError struct {
	error
	remedy string
}

func (e *hintedError) Unwrap() error { return e.error }

// withNearest adds to err, if it is about a type or a method that is not there,
// which one was probably meant, or which command shows the stream of that name. method is empty where
// no method was named.
func withNearest(ctx context.Context, c *cli, a *api, err error, types []string, method string) error {
	described := describeError(c, err)
	kind := described.Kind
	if kind != string(actor.ErrTypeNotFound.Kind()) && kind != string(actor.ErrMethodNotFound.Kind()) {
		return err
	}
	served, listErr := listTypes(ctx, c, a)
	if listErr != nil {
		return err // which says enough
	}
	names := mapped(served, func(t *greenroomv1.ServedType) string { return t.Type.GetName() })
	for _, typ := range types {
		at := slices.Index(names, typ)
		if at < 0 {
			if near := nearest(typ, names); near != "" {
				return &hintedError{err, "did you mean the type " + near + "?"}
			}
			continue
		}
		if kind != string(actor.ErrMethodNotFound.Kind()) {
			continue
		}
		if slices.Contains(served[at].Type.GetProtobuf().GetStreams(), method) {
			return &hintedError{err, fmt.Sprintf("%s returns a stream: `greenroom events %s %s --follow` shows its messages as they are published", method, typ, printable(cmp.Or(described.ActorID, "ID")))}
		}
		methods := mapped(served[at].Type.GetMethods(), func(m *greenroomv1.Method) string { return m.Name })
		if near := nearest(method, methods); near != "" {
			return &hintedError{err, "did you mean the method " + near + "?"}
		}
	}
	return err
}
