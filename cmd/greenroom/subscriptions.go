package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

func subscriptionsCommand(c *cli) *cobra.Command {
	return group(&cobra.Command{
		Use: "subscriptions", Short: "What actors subscribe to",
		Long: `Subscriptions of actors to the events of other actors. An actor subscribes in its
methods; a method of it runs for each event, one after the other.`,
		Example: `  greenroom subscriptions list
  greenroom subscriptions list Invoice 17`,
	}, subscriptionsListCommand(c))
}

func subscriptionsListCommand(c *cli) *cobra.Command {
	var page pageFlags
	cmd := &cobra.Command{
		Use:   "list [TYPE] [ID]",
		Short: "List the subscriptions of the app, a type or an actor",
		Long: `List the subscriptions of the actors of the app, of a type, or of one actor, in byte
order of type and ID, with the actor that each subscribes to. AFTER is the position of
the last event that was delivered. STATE is empty if all events are delivered; it is
"behind" if one is not, and says how often that one failed and why.`,
		Example: `  greenroom subscriptions list
  greenroom subscriptions list Invoice 17
  greenroom subscriptions list --all -o json | jq '.subscriptions[] | select(.failures > 0)'`,
		ValidArgsFunction: complete{c}.actor,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, args []string) error {
			req := &greenroomv1.ListSubscriptionsRequest{App: c.app}
			if len(args) > 0 {
				req.Type = args[0]
			}
			if len(args) > 1 {
				req.Id = args[1]
			}
			list, err := collect(&page, func(size int32, token string) (*greenroomv1.ListSubscriptionsResponse, error) {
				full := &greenroomv1.ListSubscriptionsResponse{}
				for req.PageToken = token; ; { // a page may be short, or empty
					req.PageSize = size
					resp, err := unary(cmd.Context(), a.actors.ListSubscriptions, req)
					if err != nil {
						return nil, err
					}
					full.Subscriptions = append(full.Subscriptions, resp.Subscriptions...)
					full.NextPageToken, req.PageToken = resp.NextPageToken, resp.NextPageToken
					if size -= int32(len(resp.Subscriptions)); size <= 0 || req.PageToken == "" { //nolint:gosec // a page
						return full, nil
					}
				}
			})
			if err != nil {
				return err
			}
			if len(list.Subscriptions) == 0 && req.Type != "" {
				noteUnknownType(cmd.Context(), c, a, req.Type)
			}
			rows := mapped(list.Subscriptions, func(s *greenroomv1.Subscription) []string {
				return []string{
					s.Subscriber.GetType(), s.Subscriber.GetId(), s.Method, s.Publisher.GetType() + " " + s.Publisher.GetId(),
					s.Position, when(s.UpdatedAt), subscriptionState(s),
				}
			})
			return c.list(cmd, list, []string{"TYPE", "ID", "METHOD", "PUBLISHER", "AFTER", "CHANGED", "STATE"}, rows, "app %s has no such subscriptions", c.app)
		}),
	}
	page.register(cmd)
	return cmd
}

// subscriptionState says how a subscription fares; empty if it waits for the next event.
func subscriptionState(s *greenroomv1.Subscription) string {
	var words []string
	if s.PublisherTypeMissing {
		words = append(words, "no type "+s.Publisher.GetType()+" is deployed")
	}
	switch {
	case s.Failures > 0:
		words = append(words, fmt.Sprintf("retrying (attempt %d, %s): %s", s.Failures+1, when(s.NextAttempt), s.LastError))
	case s.Behind && s.LastError != "":
		words = append(words, "behind: "+s.LastError)
	case s.Behind:
		words = append(words, "behind")
	}
	return strings.Join(words, ", ")
}
