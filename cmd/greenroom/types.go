package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func typesCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "types",
		Short:   "List the actor types and what serves them",
		Long:    "List the actor types of the app with their methods\n(" + methodMarks + "),\nthe capabilities that they use (! not given to the app), and the deployment that\nserves them. If the app is granted more hosts than its types declare, a note names\nthe narrower grants that are enough.",
		Example: `  greenroom types --app shop`,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, _ []string) error {
			types, err := listTypes(cmd.Context(), c, a)
			if err != nil {
				return err
			}
			if c.wantsJSON() {
				return c.writeMessage(&greenroomv1.ListTypesResponse{Types: types})
			}
			if len(types) == 0 {
				c.printf(c.stderr, "app %s has no actor types; deploy a module with `greenroom deploy`\n", c.app)
				return nil
			}
			header := []string{"TYPE", "METHODS", "PLACEMENT", "GENERATION", "MODULE", "DEPLOYED"}
			rows := make([][]string, len(types))
			for i, t := range types {
				rows[i] = []string{
					t.Type.GetName(), methodNames(t.Type), placementOf(t.Type),
					strconv.FormatUint(t.Deployment.GetGeneration(), 10), short(t.Deployment.GetDigest()), when(t.Deployment.GetCreatedAt()),
				}
				if uses := usesOf(t.Deployment); uses != "" {
					rows[i] = append(rows[i], uses)
					header = append(header[:6], "USES")
				}
			}
			c.table(header, rows)
			noteWideGrants(cmd.Context(), c, types)
			notePauses(cmd.Context(), c)
			return nil
		}),
	}
	cmd.AddCommand(typesPauseCommand(c), typesResumeCommand(c), typesLimitCommand(c))
	return cmd
}

// notePauses says which types are paused. Who may not see the settings is told nothing.
func notePauses(ctx context.Context, c *cli) {
	s, err := settings(ctx, c)
	if err != nil {
		return
	}
	for _, p := range s.Pauses {
		c.printf(c.stderr, "%s %s is paused: %s; `greenroom types resume %s` ends that\n", c.paint(c.stderr, yellow, "note:"), p.Type, pauseText(p), p.Type)
	}
}

func listTypes(ctx context.Context, c *cli, a *api) ([]*greenroomv1.ServedType, error) {
	resp, err := unary(ctx, a.modules.ListTypes, &greenroomv1.ListTypesRequest{App: c.app})
	if err != nil {
		return nil, err
	}
	return resp.Types, nil
}

// noteUnknownType says that nothing serves a type, and which was probably meant.
// It is no error: what no longer is served may have state and logs, and a guest
// may be about to be deployed.
func noteUnknownType(ctx context.Context, c *cli, a *api, name string) {
	if c.wantsJSON() {
		return
	}
	types, err := listTypes(ctx, c, a)
	if err != nil {
		return // what is asked for next says the same, as an error
	}
	names := mapped(types, func(t *greenroomv1.ServedType) string { return t.Type.GetName() })
	if slices.Contains(names, name) {
		return
	}
	meant := "; it has no types"
	if len(names) > 0 {
		meant = "; it has " + strings.Join(names, ", ")
	}
	if near := nearest(name, names); near != "" {
		meant = "; did you mean " + near + "?"
	}
	c.printf(c.stderr, "%s nothing serves the type %s in app %s%s\n", c.paint(c.stderr, yellow, "note:"), name, c.app, meant)
}

// placementOf says where the actors of a type are, and with which others.
func placementOf(t *greenroomv1.ActorType) string {
	if with := groupOf(t); with != "" {
		return t.GetPlacement() + " in " + with
	}
	return t.GetPlacement()
}

// groupOf names the group of a type and the part of its IDs that is the group key; empty
// without a group.
func groupOf(t *greenroomv1.ActorType) string {
	g := t.GetCoLocate()
	switch {
	case g.GetGroup() == "":
		return ""
	case g.Separator == "":
		return fmt.Sprintf("group %s (key: whole ID)", g.Group)
	case g.Parts == 1:
		return fmt.Sprintf("group %s (key: ID up to the first %q)", g.Group, g.Separator)
	default:
		return fmt.Sprintf("group %s (key: first %d parts of the ID by %q)", g.Group, g.Parts, g.Separator)
	}
}

// methodMarks explains the marks of methodNames.
const methodMarks = "* read-only, ~ private, & in its caller's transaction, ^ reentrant"

// methodNames lists the methods of a type with their marks.
func methodNames(t *greenroomv1.ActorType) string {
	names := make([]string, len(t.GetMethods()))
	for i, m := range t.GetMethods() {
		names[i] = m.Name
		for _, mark := range []struct {
			is   bool
			text string
		}{{m.ReadOnly, "*"}, {m.Private, "~"}, {m.Atomic, "&"}, {m.Reentrant, "^"}} {
			if mark.is {
				names[i] += mark.text
			}
		}
	}
	return strings.Join(names, " ")
}
