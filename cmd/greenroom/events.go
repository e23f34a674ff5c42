package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

type eventsFlags struct {
	follow, onlyNew bool
	after           string
}

func eventsCommand(c *cli) *cobra.Command {
	var f eventsFlags
	cmd := &cobra.Command{
		Use:        "events TYPE ID",
		SuggestFor: []string{"subscribe", "follow"},
		Short:      "Show the events that an actor publishes",
		Long: `Show the events that an actor has published and that are kept, in their order:
when, the position, the name, and the payload, which is JSON, a quoted text, or
base64 of anything else. Messages of an rpc that returns a stream are JSON. --follow
continues with new events until Ctrl-C, also when the connection breaks or its server
stops: none is missed, and none is shown twice. --after begins behind the position of
an event that was shown before.`,
		Example: `  greenroom events Order 17
  greenroom events Order 17 -f                   # what is kept, then what is new
  greenroom events Order 17 -f --only-new
  greenroom events Order 17 --after 1f07c3a5b2d4e688-0
  greenroom events Order 17 -o json | jq .payload`,
		ValidArgsFunction: complete{c}.actor,
		RunE: c.withActor(func(cmd *cobra.Command, a *api, key *greenroomv1.ActorKey, _ []string) error {
			return events(cmd.Context(), c, a, key, f)
		}),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.follow, "follow", "f", false, "continue with new events")
	flags.StringVar(&f.after, "after", "", "only events after this `position`")
	flags.BoolVar(&f.onlyNew, "only-new", false, "with --follow: only what is published from now on")
	return cmd
}

func events(ctx context.Context, c *cli, a *api, key *greenroomv1.ActorKey, f eventsFlags) error {
	req := &greenroomv1.SubscribeRequest{Actor: key, KeptOnly: !f.follow, Json: true, From: &greenroomv1.SubscribeRequest_Start{Start: true}}
	switch {
	case f.onlyNew && f.after != "":
		return usagef("--only-new and --after both say where to begin; give one of them")
	case f.onlyNew && !f.follow:
		return usagef("--only-new shows nothing without --follow; add --follow")
	case f.onlyNew:
		req.From = nil
	case f.after != "":
		if _, err := actor.ParseEventPosition(f.after); err != nil {
			return usagef("--after is %q; give the position of an event as it was shown", f.after)
		}
		req.From = &greenroomv1.SubscribeRequest_After{After: f.after}
	}
	unknown, err := unknownType(ctx, c, a, key.Type)
	if err != nil {
		return err
	}
	if f.follow {
		if unknown != "" {
			return fmt.Errorf("%s; what its actors published before is shown without --follow", unknown)
		}
		return followEvents(ctx, c, a, req)
	}
	shown := 0
	err = receiveEvents(ctx, a, req, func(msg *greenroomv1.SubscribeResponse) error {
		shown += len(msg.Events)
		return printEvents(c, msg.Events)
	})
	switch {
	case err != nil || shown > 0:
		return err
	case unknown != "":
		return errors.New(unknown)
	case !c.wantsJSON() && f.after != "":
		c.printf(c.stderr, "%s %s has published nothing after %s\n", key.Type, key.Id, f.after)
	case !c.wantsJSON():
		c.printf(c.stderr, "no events of %s %s are kept\n", key.Type, key.Id)
	}
	return nil
}

// The waits between attempts to go on with a stream that broke.
const (
	firstResume = 250 * time.Millisecond
	lastResume  = 10 * time.Second
)

// followEvents shows events until Ctrl-C. A stream that broke goes on after the last event that
// was shown.
func followEvents(ctx context.Context, c *cli, a *api, req *greenroomv1.SubscribeRequest) error {
	return follow(ctx, c, func(came func()) error {
		return receiveEvents(ctx, a, req, func(msg *greenroomv1.SubscribeResponse) error {
			came()
			req.From = &greenroomv1.SubscribeRequest_After{After: msg.Position}
			return printEvents(c, msg.Events)
		})
	})
}

// follow receives a stream until Ctrl-C, and again when it broke. One that never began is an error.
// receive calls came when something was received.
func follow(ctx context.Context, c *cli, receive func(came func()) error) error {
	began := false
	for wait := firstResume; ; wait = min(2*wait, lastResume) {
		err := receive(func() { began, wait = true, firstResume })
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return nil // Ctrl-C is how following ends
		case err != nil && (!began || !resumable(err)):
			return err
		}
		if !c.wantsJSON() && wait == firstResume {
			c.printf(c.stderr, "(the connection to %s ended; trying to go on)\n", c.server)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// resumable reports whether a stream that ended with err may go on: the connection broke, or the
// server says that the reason passes.
func resumable(err error) bool {
	var rpc *connect.Error
	if !errors.As(err, &rpc) {
		return false
	}
	return !connect.IsWireError(rpc) || describeRPC(&cli{}, err, rpc).Retryable || rpc.Code() == connect.CodeUnavailable
}

// streamSilence is how long a stream may say nothing: servers say something every 25 s.
const streamSilence = 75 * time.Second

// receiveEvents hands on the messages of a subscription until it ends.
func receiveEvents(ctx context.Context, a *api, req *greenroomv1.SubscribeRequest, take func(*greenroomv1.SubscribeResponse) error) error {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	silence := time.AfterFunc(streamSilence, cut)
	defer silence.Stop()
	stream, err := a.actors.Subscribe(ctx, connect.NewRequest(req))
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // it was read to its end, or given up
	for stream.Receive() {
		silence.Reset(streamSilence)
		if err := take(stream.Msg()); err != nil {
			return err
		}
	}
	return stream.Err()
}

// shownEvent is an event for programs.
type shownEvent struct {
	Position    string    `json:"position"`
	Name        string    `json:"name"`
	PublishedAt time.Time `json:"published_at"`
	Life        uint64    `json:"life,string"`
	shownPayload
}

func printEvents(c *cli, list []*greenroomv1.ActorEvent) error {
	for _, e := range list {
		if !c.wantsJSON() {
			c.printf(c.stdout, "%s  %s  %s  %s\n", c.paint(c.stdout, dim, when(e.PublishedAt)), c.paint(c.stdout, dim, e.Position),
				c.paint(c.stdout, cyan, e.Name), painted(payloadLine(e.Payload, e.ContentType)))
			continue
		}
		line, err := json.Marshal(shownEvent{e.Position, e.Name, e.PublishedAt.AsTime(), e.Life, showPayload(e.Payload, e.ContentType)})
		if err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
		if _, err := c.stdout.Write(append(escapeJSON(line), '\n')); err != nil {
			return err
		}
	}
	return nil
}

// payloadLine returns a payload as one line that a terminal may show: JSON, a quoted text, or
// base64.
func payloadLine(payload []byte, contentType string) string {
	var line bytes.Buffer
	switch {
	case len(payload) == 0:
		return ""
	case actor.IsJSON(contentType) && json.Compact(&line, payload) == nil:
		return string(escapeJSON(line.Bytes()))
	case isText(contentType) && utf8.Valid(payload):
		return strconv.Quote(string(payload))
	}
	return "base64 " + base64.StdEncoding.EncodeToString(payload)
}
