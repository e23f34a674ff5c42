package main

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

// Kinds of errors that are found before any server is asked; those of the
// server are in docs/errors.md.
const (
	kindUsage       = "usage"
	kindArgument    = "invalid_argument"
	kindUnreachable = "server_unreachable"
	kindCompile     = "compile"
	kindToolchain   = "toolchain"
	kindLocal       = "local"
)

// shownError is an error as the command line shows it; its JSON form is
// documented in docs/cli.md.
type shownError struct {
	Message   string       `json:"message"`
	Kind      string       `json:"kind"`
	Code      string       `json:"code,omitempty"` // Connect's; empty for errors found here
	Retryable bool         `json:"retryable"`
	App       string       `json:"app,omitempty"`
	ActorType string       `json:"actor_type,omitempty"`
	ActorID   string       `json:"actor_id,omitempty"`
	Method    string       `json:"method,omitempty"`
	Guest     *shownGuest  `json:"guest,omitempty"`
	Faults    []shownFault `json:"faults,omitempty"`
	Stack     string       `json:"stack,omitempty"`
	// Remedy is what to do about it.
	Remedy string `json:"remedy,omitempty"`
}

type shownGuest struct {
	Code         string          `json:"code"`
	ContentType  string          `json:"content_type,omitempty"`
	Detail       json.RawMessage `json:"detail,omitempty"`        // if it is JSON
	DetailBase64 string          `json:"detail_base64,omitempty"` // if not
}

type shownFault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// showError writes err to standard error in the format of --output. cmd is
// needed for usage errors only.
func showError(c *cli, cmd *cobra.Command, err error) {
	s := describeError(c, err)
	if c.wantsJSON() {
		_ = writeJSON(c.stderr, map[string]shownError{"error": s}) // nowhere left to say so
		return
	}
	c.printf(c.stderr, "%s %s\n", c.paint(c.stderr, red, "error:"), painted(printableLines(s.Message)))
	for _, f := range s.Faults {
		c.printf(c.stderr, "  - %s (%s)\n", f.Message, f.Code)
	}
	if s.Code != "" {
		var guestCode, guestDetail string
		if s.Guest != nil {
			guestCode = s.Guest.Code
			guestDetail = string(s.Guest.Detail)
			if s.Guest.DetailBase64 != "" {
				guestDetail = "base64 " + s.Guest.DetailBase64
			}
		}
		who := s.ActorType
		if s.ActorID != "" {
			who += " " + s.ActorID
		}
		method := s.Method
		if method == actor.MethodAll {
			method = "the calls together"
		}
		c.facts(c.stderr, "  ", "code", s.Code, "kind", s.Kind, "guest code", guestCode, "detail", guestDetail,
			"actor", who, "method", method, "retryable", yesNo(s.Retryable))
	}
	if s.Stack != "" {
		c.printf(c.stderr, "  stack\n")
		for line := range strings.Lines(s.Stack) {
			c.printf(c.stderr, "    %s\n", painted(printableLines(line)))
		}
	}
	if s.Remedy != "" {
		c.printf(c.stderr, "%s\n", painted(s.Remedy)) // ours
	}
	if s.Kind == kindUsage && cmd != nil {
		usage := cmd.UseLine()
		if cmd.HasSubCommands() {
			usage = cmd.CommandPath() + " COMMAND"
		}
		c.printf(c.stderr, "usage: %s\nsee `%s --help`\n", usage, cmd.CommandPath())
	}
}

func describeError(c *cli, err error) shownError {
	var (
		argument  *actor.ArgumentError
		compile   *guestbuild.CompileError
		toolchain *guestbuild.ToolchainError
		rpc       *connect.Error
	)
	switch {
	case isUsage(err):
		return shownError{Message: err.Error(), Kind: kindUsage}
	case errors.As(err, &argument):
		return shownError{Message: err.Error(), Kind: kindArgument}
	case errors.As(err, &compile) && c.wantsJSON():
		return shownError{Message: err.Error(), Kind: kindCompile}
	case errors.As(err, &compile):
		// What the compiler printed is on the screen already.
		return shownError{Message: compile.Problem(), Kind: kindCompile}
	case errors.As(err, &toolchain):
		return shownError{Message: err.Error(), Kind: kindToolchain}
	case errors.As(err, &rpc):
		s := describeRPC(c, err, rpc)
		if before, ok := strings.CutSuffix(err.Error(), rpc.Error()); ok { // what the command was doing
			s.Message = before + s.Message
		}
		return s
	}
	return shownError{Message: err.Error(), Kind: kindLocal}
}

func describeRPC(c *cli, err error, rpc *connect.Error) shownError {
	if !connect.IsWireError(rpc) {
		return describeUnanswered(c, err, rpc)
	}
	s := shownError{Message: rpc.Message(), Code: rpc.Code().String(), Kind: rpc.Code().String()}
	for _, d := range rpc.Details() {
		value, err := d.Value()
		if err != nil {
			continue
		}
		if detail, ok := value.(*greenroomv1.ErrorDetail); ok {
			s.Kind, s.Retryable = detail.Kind, detail.Retryable
			s.App, s.ActorType, s.ActorID, s.Method = detail.App, detail.ActorType, detail.ActorId, detail.Method
			s.Stack = detail.Stack
			s.Guest = showGuest(detail.Guest)
			for _, f := range detail.Faults {
				s.Faults = append(s.Faults, shownFault{Code: f.Code, Message: f.Message})
			}
		}
	}
	if len(s.Faults) > 0 {
		// The message repeats them all in one line.
		s.Message = fmt.Sprintf("the module was refused, with %d faults:", len(s.Faults))
		if len(s.Faults) == 1 {
			s.Message = "the module was refused:"
		}
	}
	var hinted *hintedError
	switch {
	case errors.As(err, &hinted):
		s.Remedy = hinted.remedy
	case s.Kind == string(actor.ErrNotReadOnly.Kind()):
		s.Remedy = "leave out --query to call it"
	case s.Kind == string(actor.ErrNoGeneration.Kind()):
		s.Remedy = "`greenroom history TYPE` lists the generations: name one with --to"
	case s.Kind == string(actor.ErrSchemaRollback.Kind()):
		s.Remedy = "--force deploys it all the same"
	case s.Kind == string(actor.ErrTypeNotFound.Kind()):
		s.Remedy = "the server asked is " + c.server + "; --server or GREENROOM_SERVER names another"
	case s.Kind == string(actor.ErrPositionGone.Kind()):
		s.Remedy = "leave out --after for all events that are kept, or give --follow --only-new for those that come"
	case s.Kind == string(actor.ErrNoOwner.Kind()):
		s.Remedy = "`greenroom doctor` says which servers are there, and which do not reach each other"
	case s.Stack == "" && s.ActorID != "" && (s.Kind == string(actor.TrapUnreachable) || s.Kind == string(actor.TrapStack)):
		s.Remedy = fmt.Sprintf("the stack: `greenroom logs %s %s`", s.ActorType, printable(s.ActorID))
	case rpc.Code() == connect.CodeUnauthenticated && c.token == "":
		s.Remedy = "give the server's token with --token or GREENROOM_TOKEN"
	case rpc.Code() == connect.CodeUnauthenticated:
		s.Remedy = "the server does not know this token: check --token or GREENROOM_TOKEN"
	}
	return s
}

// describeUnanswered describes a call that got no answer from the server.
func describeUnanswered(c *cli, err error, rpc *connect.Error) shownError {
	s := shownError{Kind: kindUnreachable}
	var network *net.OpError
	var authority x509.UnknownAuthorityError
	cause := rpc.Unwrap()
	var wrapped *url.Error
	if errors.As(cause, &wrapped) {
		cause = wrapped.Err // without the whole URL of the call
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		s.Message = fmt.Sprintf("no server listens at %s", c.server)
		s.Retryable = true // nothing was sent
		s.Remedy = "start one with `greenroom dev` in a guest's folder or with `greenroom serve`,\nor name another with --server or GREENROOM_SERVER"
	case errors.Is(err, context.DeadlineExceeded), rpc.Code() == connect.CodeDeadlineExceeded:
		s.Kind = string(actor.ErrDeadline.Kind())
		s.Message = fmt.Sprintf("no answer from %s in time; what was asked for may have taken effect all the same", c.server)
	case errors.As(err, &network):
		s.Message = fmt.Sprintf("the server %s cannot be reached: %v", c.server, cause)
	case errors.As(err, &authority):
		s.Message = fmt.Sprintf("the certificate of %s is signed by an unknown authority", c.server)
		s.Remedy = "name a file with the authority's certificate with --ca-cert"
	default:
		s.Message = fmt.Sprintf("%s does not answer as a Greenroom server does: %v", c.server, cause)
		if scheme, rest, _ := strings.Cut(c.server, "://"); scheme == "https" && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
			s.Remedy = "it speaks plain HTTP: --server http://" + rest
		} else if scheme == "http" {
			s.Remedy = "if it speaks TLS: --server https://" + rest
		}
	}
	var hinted *hintedError
	if errors.As(err, &hinted) {
		s.Remedy = hinted.remedy
	}
	return s
}

func showGuest(g *greenroomv1.GuestErrorDetail) *shownGuest {
	if g == nil {
		return nil
	}
	out := &shownGuest{Code: g.Code, ContentType: g.ContentType}
	switch {
	case len(g.Detail) == 0:
	case json.Valid(g.Detail):
		out.Detail = g.Detail
	default:
		out.DetailBase64 = base64.StdEncoding.EncodeToString(g.Detail)
	}
	return out
}

// isCanceled reports whether err is a call that this process gave up itself.
func isCanceled(err error) bool { return connect.CodeOf(err) == connect.CodeCanceled }

// hintedError is an error of the server with what to do about it.
type hintedError struct {
	error
	remedy string
}

func (e *hintedError) Unwrap() error { return e.error }
