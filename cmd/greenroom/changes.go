package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// changes are what deploying a module changes in what serves an app.
type changes struct {
	// lines are in the order of the module's types; warnings are about what may
	// break callers or leave something behind.
	lines    []string
	warnings []string
	added    []*greenroomv1.ActorType // whose methods the lines list
}

// compare says what deploying the named types of m, all for none, changes in what
// is served, with the placements that are asked for. old are the modules that serve
// now, by digest.
func compare(m *greenroomv1.Module, names []string, placements []*greenroomv1.TypePlacement, served []*greenroomv1.ServedType, old map[string]*greenroomv1.Module) changes {
	var out changes
	current := make(map[string]*greenroomv1.ServedType, len(served))
	for _, t := range served {
		current[t.Type.GetName()] = t
	}
	var replaced []string // digests that lose a type
	for _, t := range m.Types {
		if len(names) > 0 && !slices.Contains(names, t.Name) {
			continue
		}
		cur := current[t.Name]
		if cur == nil {
			line := fmt.Sprintf("+ %s is new: %s", t.Name, methodNames(t))
			if placement := placementAfter(t, nil, placements); placement != t.Placement {
				line += "; placement " + placement
			}
			out.lines, out.added = append(out.lines, line), append(out.added, t)
			continue
		}
		digest := cur.Deployment.GetDigest()
		placement := placementAfter(t, cur, placements)
		if placed := placement != cur.Type.GetPlacement(); placed && digest == m.Digest {
			out.lines = append(out.lines, fmt.Sprintf("~ %s: placement %s to %s", t.Name, cur.Type.GetPlacement(), placement))
			continue
		}
		if digest == m.Digest {
			out.lines = append(out.lines, fmt.Sprintf("= %s is served by this module already", t.Name))
			continue
		}
		if !slices.Contains(replaced, digest) {
			replaced = append(replaced, digest)
		}
		line, warnings := typeChange(cur.Type, t, placement)
		out.lines = append(out.lines, fmt.Sprintf("~ %s, until now of module %s: %s", t.Name, short(digest), line))
		out.warnings = append(out.warnings, warnings...)
		if before := old[digest]; before != nil && !overlaps(before, m) {
			out.warnings = append(out.warnings, fmt.Sprintf("%s is taken over from a module of other types (%s): is it the same type?", t.Name, typeNames(before)))
		}
	}
	for _, digest := range replaced {
		if before := old[digest]; before != nil && before.Sdk != m.Sdk {
			out.lines = append(out.lines, fmt.Sprintf("  built with %s; module %s with %s", sdkName(m), short(digest), sdkName(before)))
		}
		for _, t := range served {
			if name := t.Type.GetName(); t.Deployment.GetDigest() == digest && len(names) == 0 && !hasType(m, name) {
				out.warnings = append(out.warnings, fmt.Sprintf("%s is not in this module: module %s keeps serving it", name, short(digest)))
			}
		}
	}
	return out
}

// sdkName is what a module was built with, for people: a manifest need not name it.
func sdkName(m *greenroomv1.Module) string { return cmp.Or(m.GetSdk(), "no named SDK") }

// placementAfter returns the placement of a type after the deployment: the one that is asked for,
// or the deployed one if it stays, or the module's. cur serves the type now; nil if nothing does.
func placementAfter(t *greenroomv1.ActorType, cur *greenroomv1.ServedType, asked []*greenroomv1.TypePlacement) string {
	for _, p := range asked {
		switch {
		case p.Type != t.Name:
		case p.Placement == "manifest":
			return t.Placement
		default:
			return p.Placement
		}
	}
	if kept := cur.GetDeployment().GetPlacement(); kept != "" && t.Placement != "stateless" {
		return kept
	}
	return t.Placement
}

// typeChange says what changes for the callers of a type.
func typeChange(before, now *greenroomv1.ActorType, placement string) (line string, warnings []string) {
	had := make(map[string]*greenroomv1.Method)
	for _, m := range before.GetMethods() {
		had[m.Name] = m
	}
	var added, removed, what []string
	for _, m := range now.GetMethods() {
		old := had[m.Name]
		switch {
		case old == nil:
			added = append(added, m.Name)
		case old.ReadOnly && !m.ReadOnly:
			what = append(what, m.Name+" is no longer read-only")
			warnings = append(warnings, fmt.Sprintf("%s of %s is no longer read-only: queries of it will get not_read_only", m.Name, now.Name))
		}
		if old != nil && m.Private && !old.Private {
			what = append(what, m.Name+" becomes private")
			warnings = append(warnings, fmt.Sprintf("%s of %s becomes private: callers will get method_private", m.Name, now.Name))
		}
		if old != nil && m.Atomic && !old.Atomic {
			what = append(what, m.Name+" becomes atomic")
			warnings = append(warnings, fmt.Sprintf("%s of %s becomes atomic: actors of other servers that call it will get not_atomic", m.Name, now.Name))
		}
		if old != nil && !m.Reentrant && old.Reentrant {
			what = append(what, m.Name+" is no longer reentrant")
			warnings = append(warnings, fmt.Sprintf("%s of %s is no longer reentrant: actors that call it back will get not_reentrant", m.Name, now.Name))
		}
		delete(had, m.Name)
	}
	for _, m := range before.GetMethods() {
		if had[m.Name] != nil {
			removed = append(removed, m.Name)
		}
	}
	if len(removed) > 0 {
		what = append([]string{"removes " + strings.Join(removed, ", ")}, what...)
		warnings = append(warnings, fmt.Sprintf("%s loses %s: callers will get method_not_found", now.Name, strings.Join(removed, ", ")))
	}
	if len(added) > 0 {
		what = append([]string{"adds " + strings.Join(added, ", ")}, what...)
	}
	if before.GetStateSchema() != now.StateSchema {
		what = append(what, fmt.Sprintf("state schema %d to %d", before.GetStateSchema(), now.StateSchema))
	}
	if before.GetPlacement() != placement {
		what = append(what, fmt.Sprintf("placement %s to %s", before.GetPlacement(), placement))
	}
	if was, is := groupOf(before), groupOf(now); was != is {
		what = append(what, fmt.Sprintf("in %s, before in %s", cmp.Or(is, "no group"), cmp.Or(was, "no group")))
	}
	if was, is := serviceOf(before), serviceOf(now); was != is {
		what = append(what, fmt.Sprintf("serves %s, before %s", cmp.Or(is, "no Protobuf service"), cmp.Or(was, "none")))
	}
	if len(what) == 0 {
		return "the same methods", warnings
	}
	return strings.Join(what, "; "), warnings
}

// overlaps reports whether two modules look like versions of one: one has all
// types of the other.
func overlaps(a, b *greenroomv1.Module) bool {
	within := func(x, y *greenroomv1.Module) bool {
		return !slices.ContainsFunc(x.Types, func(t *greenroomv1.ActorType) bool { return !hasType(y, t.Name) })
	}
	return within(a, b) || within(b, a)
}

func hasType(m *greenroomv1.Module, name string) bool {
	return slices.ContainsFunc(m.Types, func(t *greenroomv1.ActorType) bool { return t.Name == name })
}

// changesOf compares a module with what the server serves now.
func changesOf(ctx context.Context, c *cli, a *api, m *greenroomv1.Module, names []string, placements []*greenroomv1.TypePlacement) (changes, error) {
	served, err := listTypes(ctx, c, a)
	if err != nil {
		return changes{}, err
	}
	old := make(map[string]*greenroomv1.Module)
	for _, t := range served {
		digest := t.Deployment.GetDigest()
		if old[digest] != nil || digest == m.Digest || !hasType(m, t.Type.GetName()) {
			continue
		}
		resp, err := unary(ctx, a.modules.GetModule, &greenroomv1.GetModuleRequest{App: c.app, Digest: digest})
		if err != nil {
			continue // a module that cannot be described must not keep a better one out
		}
		old[digest] = resp.Module
	}
	return compare(m, names, placements, served, old), nil
}

// showChanges prints what a deployment changes, before it does.
func showChanges(c *cli, ch changes) {
	for _, line := range ch.lines {
		colour := dim
		switch line[0] {
		case '+':
			colour = green
		case '~':
			colour = yellow
		}
		c.printf(c.stderr, "  %s\n", c.paint(c.stderr, colour, line))
	}
	showMarks(c, ch.added)
	c.warnings(ch.warnings)
}
