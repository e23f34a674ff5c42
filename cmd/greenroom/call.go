package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

type callFlags struct {
	query          bool
	strong         bool
	contentType    string
	idempotencyKey string
	verbose        bool
	timeout        time.Duration
	all            string
}

func callCommand(c *cli) *cobra.Command {
	var f callFlags
	cmd := &cobra.Command{
		Use:        "call TYPE ID METHOD [PAYLOAD]",
		SuggestFor: []string{"invoke"},
		Short:      "Call a method of an actor",
		Long: `Call a method of an actor and print its reply.

PAYLOAD is JSON, @FILE for a file's content, or - for standard input; without
it the payload is empty. JSON is checked before it is sent, unless
--content-type names another type.

ID may have any characters: quote it for your shell. Arguments that begin with
a dash go after --.

On a terminal, JSON replies are indented. Otherwise they are written as they
came. With -o json the result is an object: payload (or payload_base64 if it is
not JSON), content_type, version (the actor's version after the call) and fuel
(the work of the turn, in units of about one simple instruction); -v prints the
last two to standard error. A version begins at a large number and rises with
each change: use it to order versions, not to count changes.

With --all the calls are those of a file, or of standard input for -:
{"calls": [{"type": …, "id": …, "method": …, "data": JSON}]}, or the list alone.
They run in order as one transaction: all take effect, or none does. One server
must hold all their actors. Their replies are printed one after the other; with
-o json they are one object, whose replies have payload and content_type, and
which has the fuel of all calls.

Fields of a JSON payload that the method's input does not have are ignored by the
SDKs, so a misspelt field has no effect. For a method that is an rpc of its type's
Protobuf service they are an error; its payload and its reply are JSON by the rules
of Protobuf (docs/typed.md).`,
		Example: `  greenroom call Counter alice Add '{"amount": 5}'
  greenroom call Counter alice Get --query
  greenroom call Cart 'shop/7 || 🛒' AddItem @item.json
  jq -c .order order.json | greenroom call Cart alice Import - | jq .total
  greenroom call -- Counter -5 Add '{"amount": 1}'
  greenroom call --all transfer.json --idempotency-key payment-7`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.all != "" {
				return takes()(cmd, args)
			}
			return takes("TYPE", "ID", "METHOD", "[PAYLOAD]")(cmd, args)
		},
		ValidArgsFunction: complete{c}.call,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("idempotency-key") {
				// Without a key the call would be repeated as if it had none.
				switch {
				case f.idempotencyKey == "":
					return usagef("--idempotency-key is empty; give 1 to 255 printable ASCII characters, or leave it out")
				case f.query:
					return usagef("--idempotency-key is for calls that change their actor; leave it out with --query")
				}
			}
			if f.all != "" {
				if cmd.Flags().Changed("content-type") {
					return usagef("--content-type is for one call; leave it out with --all, whose payloads are JSON")
				}
				return callAll(cmd.Context(), c, f)
			}
			return call(cmd.Context(), c, args, f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.query, "query", false, "only call the method if it is declared read-only")
	flags.BoolVar(&f.strong, "strong", false, "with --query: confirm in the store that the answer is current")
	flags.StringVar(&f.contentType, "content-type", actor.ContentTypeJSON, "media `type` of the payload")
	flags.StringVar(&f.idempotencyKey, "idempotency-key", "", "a `key` of your own: the same call with the same key takes effect once, and gets the same reply")
	flags.StringVar(&f.all, "all", "", "make the calls of this `file` as one transaction")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print the actor's version and the fuel used to standard error (with --all, the fuel)")
	flags.DurationVar(&f.timeout, "timeout", apiTimeout, "give up after this `time`")
	return cmd
}

func call(ctx context.Context, c *cli, args []string, f callFlags) error {
	key, err := actorKey(c, args[0], args[1])
	if err != nil {
		return err
	}
	if err := actor.ValidateName("method", args[2]); err != nil {
		return err
	}
	if f.strong && !f.query {
		return usagef("--strong is for --query: other calls are always current")
	}
	if f.timeout <= 0 {
		return usagef("--timeout is %s; give a time above 0", f.timeout)
	}
	var payload []byte
	if len(args) == 4 {
		if payload, err = readPayload(ctx, c, args[3], f.contentType); err != nil {
			return err
		}
	}
	a, err := c.api()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()

	var reply callReply
	var header http.Header
	if f.query {
		consistency := greenroomv1.Consistency_CONSISTENCY_UNSPECIFIED
		if f.strong {
			consistency = greenroomv1.Consistency_CONSISTENCY_STRONG
		}
		resp, err := a.actors.Query(ctx, connect.NewRequest(&greenroomv1.QueryRequest{
			Actor: key, Method: args[2], Payload: payload, ContentType: f.contentType, Consistency: consistency,
		}))
		if err != nil {
			return withAdvice(ctx, c, a, err, args, f.timeout)
		}
		reply, header = resp.Msg, resp.Header()
	} else {
		req := connect.NewRequest(&greenroomv1.InvokeRequest{
			Actor: key, Method: args[2], Payload: payload, ContentType: f.contentType,
		})
		if f.idempotencyKey != "" {
			req.Header().Set("Idempotency-Key", f.idempotencyKey)
		}
		resp, err := a.actors.Invoke(ctx, req)
		if err != nil {
			return withAdvice(ctx, c, a, err, args, f.timeout)
		}
		reply, header = resp.Msg, resp.Header()
	}
	fuel, err := strconv.ParseUint(header.Get("Greenroom-Fuel"), 10, 64)
	known := err == nil // an older server does not say
	if c.wantsJSON() {
		return writeReply(c, reply, fuel)
	}
	if f.verbose {
		c.printf(c.stderr, "version %d", reply.GetVersion())
		if known {
			c.printf(c.stderr, ", fuel %d", fuel)
		}
		c.printf(c.stderr, "\n")
	}
	return writePayload(c, reply.GetPayload(), reply.GetContentType())
}

// callAll makes the calls of a file as one transaction, and prints their replies, one a line.
func callAll(ctx context.Context, c *cli, f callFlags) error {
	if f.query || f.strong {
		return usagef("--query and --strong are for one call; leave them out with --all")
	}
	if f.timeout <= 0 {
		return usagef("--timeout is %s; give a time above 0", f.timeout)
	}
	arg, source := "@"+f.all, f.all
	if f.all == "-" {
		arg, source = "-", "standard input"
	}
	text, err := readPayload(ctx, c, arg, "application/octet-stream") // ParseCalls checks it
	if err != nil {
		return err
	}
	calls, err := actor.ParseCalls(c.app, source, text)
	if err != nil {
		return err
	}
	msg := &greenroomv1.InvokeAllRequest{App: c.app, Calls: mapped(calls, func(l actor.Call) *greenroomv1.ActorCall {
		return &greenroomv1.ActorCall{Type: l.Key.Type, Id: l.Key.ID, Method: l.Method, Payload: l.Payload.Data}
	})}
	a, err := c.api()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	req := connect.NewRequest(msg)
	if f.idempotencyKey != "" {
		req.Header().Set("Idempotency-Key", f.idempotencyKey)
	}
	resp, err := a.actors.InvokeAll(ctx, req)
	if err != nil {
		if ctx.Err() == context.DeadlineExceeded {
			return &hintedError{err, fmt.Sprintf("the calls had %s; give them longer with --timeout", f.timeout)}
		}
		return err
	}
	fuel := resp.Header().Get("Greenroom-Fuel") // empty from an older server
	if c.wantsJSON() {
		out := struct {
			Replies []shownPayload `json:"replies"`
			Fuel    string         `json:"fuel,omitempty"`
		}{Fuel: fuel}
		for _, r := range resp.Msg.GetReplies() {
			out.Replies = append(out.Replies, showPayload(r.GetPayload(), r.GetContentType()))
		}
		return writeJSON(c.stdout, out)
	}
	if f.verbose && fuel != "" {
		c.printf(c.stderr, "fuel %s\n", printable(fuel))
	}
	for _, r := range resp.Msg.GetReplies() {
		if err := writePayload(c, r.GetPayload(), r.GetContentType()); err != nil {
			return err
		}
	}
	return nil
}

// withAdvice adds to the error of a call what the caller can do about it, if that is known.
func withAdvice(ctx context.Context, c *cli, a *api, err error, args []string, timeout time.Duration) error {
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return &hintedError{err, fmt.Sprintf("the call had %s; give it longer with --timeout", timeout)}
	case describeError(c, err).Kind != "permission_denied":
		return withNearest(ctx, c, a, err, args[:1], args[2])
	}
	served, listErr := listTypes(ctx, c, a)
	if listErr != nil {
		return err // which says enough
	}
	for _, t := range served {
		if t.Type.GetName() != args[0] {
			continue
		}
		for _, m := range t.Type.GetMethods() {
			if m.Name == args[2] && m.ReadOnly {
				return &hintedError{err, "the method only reads: this token may call it with --query"}
			}
		}
	}
	return err
}

// callReply is what replies of calls and of queries have.
type callReply interface {
	GetPayload() []byte
	GetContentType() string
	GetVersion() uint64
}

// writeReply writes a reply with what came beside it, for programs.
func writeReply(c *cli, reply callReply, fuel uint64) error {
	return writeJSON(c.stdout, struct {
		shownPayload
		Version uint64 `json:"version,string"`
		Fuel    uint64 `json:"fuel,string"`
	}{showPayload(reply.GetPayload(), reply.GetContentType()), reply.GetVersion(), fuel})
}
