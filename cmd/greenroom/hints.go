package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

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
	unknown, err := unknownType(ctx, c, a, name)
	if err != nil || unknown == "" {
		return // the next request fails with the same error
	}
	c.printf(c.stderr, "%s %s\n", c.paint(c.stderr, yellow, "note:"), unknown)
}

// unknownType says that nothing serves a type, and which was probably meant; it is empty if the
// type is served.
func unknownType(ctx context.Context, c *cli, a *api, name string) (string, error) {
	types, err := listTypes(ctx, c, a)
	if err != nil {
		return "", err
	}
	names := mapped(types, func(t *greenroomv1.ServedType) string { return t.Type.GetName() })
	if slices.Contains(names, name) {
		return "", nil
	}
	meant := "; it has no types"
	if len(names) > 0 {
		meant = "; it has " + strings.Join(names, ", ")
	}
	if near := nearest(name, names); near != "" {
		meant = "; did you mean " + near + "?"
	}
	return fmt.Sprintf("nothing serves the type %s in app %s%s", name, c.app, meant), nil
}
