package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// completionTimeout is how long a person who pressed Tab waits for a server
// that may not be there.
const completionTimeout = 700 * time.Millisecond

type completer = func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective)

// fixedCompletion completes one of a few words.
func fixedCompletion(words ...string) completer {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// completeFlag completes the values of a flag, which must be there.
func completeFlag(cmd *cobra.Command, flag string, fn completer) {
	if err := cmd.RegisterFlagCompletionFunc(flag, fn); err != nil {
		panic(err)
	}
}

// complete completes the arguments of commands.
type complete struct{ *cli }

// ask calls fn with the server of the flags so far. Without a server there is
// nothing to complete, and nothing to say about it on the command line.
func (c complete) ask(cmd *cobra.Command, fn func(ctx context.Context, a *api) ([]cobra.Completion, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	// Cobra completes without running PersistentPreRunE.
	if err := c.readGlobals(cmd); err != nil {
		return nil, none
	}
	a, err := c.api()
	if err != nil {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	found, err := fn(ctx, a)
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
		return nil, none
	}
	// The shell prints names as they are, so names with control characters are left out.
	found = slices.DeleteFunc(found, func(s cobra.Completion) bool {
		return printable(strings.ReplaceAll(s, "\t", " ")) != strings.ReplaceAll(s, "\t", " ")
	})
	return found, none
}

// types completes an actor type as the first argument or flag value.
func (c complete) types(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 && cmd.Name() != "deploy" && cmd.Name() != "undeploy" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.ask(cmd, func(ctx context.Context, a *api) ([]cobra.Completion, error) {
		types, err := listTypes(ctx, c.cli, a)
		return mapped(types, func(t *greenroomv1.ServedType) cobra.Completion {
			return cobra.CompletionWithDesc(t.Type.GetName(), methodNames(t.Type))
		}), err
	})
}

// actor completes TYPE ID.
func (c complete) actor(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return c.types(cmd, args, toComplete)
	case 1:
		return c.ask(cmd, func(ctx context.Context, a *api) ([]cobra.Completion, error) {
			resp, err := unary(ctx, a.actors.ListActors, &greenroomv1.ListActorsRequest{App: c.app, Type: args[0], PageSize: 100})
			return mapped(resp.GetActors(), func(x *greenroomv1.Actor) cobra.Completion { return x.Key.GetId() }), err
		})
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// call completes TYPE ID METHOD [@file].
func (c complete) call(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0, 1:
		return c.actor(cmd, args, toComplete)
	case 2:
		return c.ask(cmd, func(ctx context.Context, a *api) ([]cobra.Completion, error) {
			types, err := listTypes(ctx, c.cli, a)
			var found []cobra.Completion
			for _, t := range types {
				if t.Type.GetName() != args[0] {
					continue
				}
				for _, m := range t.Type.Methods {
					if m.Private {
						continue
					}
					what := "changes the actor"
					if m.ReadOnly {
						what = "read-only"
					}
					found = append(found, cobra.CompletionWithDesc(m.Name, what))
				}
			}
			return found, err
		})
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// modules completes a digest.
func (c complete) modules(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.ask(cmd, func(ctx context.Context, a *api) ([]cobra.Completion, error) {
		resp, err := unary(ctx, a.modules.ListModules, &greenroomv1.ListModulesRequest{App: c.app, PageSize: 100})
		return mapped(resp.GetModules(), func(m *greenroomv1.Module) cobra.Completion {
			return cobra.CompletionWithDesc(short(m.Digest), typeNames(m))
		}), err
	})
}

// reminder completes TYPE ID NAME.
func (c complete) reminder(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) != 2 {
		return c.actor(cmd, args, toComplete)
	}
	return c.ask(cmd, func(ctx context.Context, a *api) ([]cobra.Completion, error) {
		resp, err := unary(ctx, a.reminders.ListReminders, &greenroomv1.ListRemindersRequest{App: c.app, Type: args[0], Id: args[1]})
		return mapped(resp.GetReminders(), func(r *greenroomv1.Reminder) cobra.Completion {
			return cobra.CompletionWithDesc(r.Name, r.Spec.GetMethod()+", "+scheduleText(r))
		}), err
	})
}

// newReminder completes TYPE ID NAME METHOD.
func (c complete) newReminder(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch {
	case len(args) == 3 && args[0] != actor.SubscriptionType:
		return c.call(cmd, args[:2], toComplete)
	case len(args) < 3:
		return c.reminder(cmd, args, toComplete)
	}
	return nil, cobra.ShellCompDirectiveDefault // @FILE
}
