package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// placementOf says where the actors of a type are, and with which others.
func placementOf(t *greenroomv1.ActorType) string {
	if with := groupOf(t); with != "" {
		return t.GetPlacement() + " in " + with
	}
	return t.GetPlacement()
}

// serviceOf names the Protobuf service of a type, the field of its requests that has the actor's
// ID, and the rpcs that return streams; empty without a service.
func serviceOf(t *greenroomv1.ActorType) string {
	p := t.GetProtobuf()
	var more []string
	if field := p.GetIdField(); field != "" {
		more = append(more, "ID: "+field)
	}
	if streams := p.GetStreams(); len(streams) > 0 {
		more = append(more, "streams: "+strings.Join(streams, ", "))
	}
	if len(more) == 0 {
		return p.GetName()
	}
	return p.GetName() + " (" + strings.Join(more, "; ") + ")"
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

// showMarks explains the marks that methodNames puts in the lists of some types.
func showMarks(c *cli, types []*greenroomv1.ActorType) {
	lists := strings.Join(mapped(types, methodNames), " ")
	marks := slices.DeleteFunc(strings.Split(methodMarks, ", "), func(m string) bool { return !strings.Contains(lists, m[:1]) })
	if len(marks) > 0 {
		c.printf(c.stderr, "(%s)\n", strings.Join(marks, ", "))
	}
}

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

func typeNames(m *greenroomv1.Module) string {
	names := mapped(m.Types, func(t *greenroomv1.ActorType) string { return t.Name })
	return strings.Join(names, " ")
}

func limitText(l *greenroomv1.TypeLimit) string {
	var parts []string
	if l.Rate.GetPerSecond() > 0 {
		parts = append(parts, rateText(l.Rate))
	}
	if l.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("%d at the same time", l.Concurrency))
	}
	if l.Per != "" {
		parts = append(parts, "per "+l.Per)
	}
	if l.Pool != "" {
		parts = append(parts, "in the pool "+l.Pool)
	}
	return strings.Join(parts, ", ")
}

func pauseText(p *greenroomv1.TypePause) string {
	if p.Refuse {
		return "calls are refused"
	}
	return "calls wait"
}

// parseRate reads NUMBER/UNIT[:BURST].
func parseRate(text string) (*greenroomv1.Rate, error) {
	const form = "give NUMBER/UNIT with the unit s, m or h, such as 100/s, and :BURST if you like"
	rate, burst, bursts := strings.Cut(text, ":")
	number, unit, _ := strings.Cut(rate, "/")
	seconds := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || seconds == 0 || !(n > 0) {
		return nil, fmt.Errorf("%s", form)
	}
	r := &greenroomv1.Rate{PerSecond: n / seconds}
	if bursts {
		if r.Burst, err = strconv.ParseFloat(burst, 64); err != nil || !(r.Burst >= 1) {
			return nil, fmt.Errorf("the burst is %q; give a number of at least 1", burst)
		}
	}
	return r, nil
}

// quotaText says what a quota allows, and of what is stored how much is.
func quotaText(q *greenroomv1.Quota) string {
	switch {
	case q.Rate != nil:
		return rateText(q.Rate)
	case q.Stored != nil:
		return fmt.Sprintf("%d, of which %d are stored", q.Most, *q.Stored)
	}
	return strconv.FormatInt(q.Most, 10)
}

func rateText(r *greenroomv1.Rate) string {
	text := strconv.FormatFloat(r.GetPerSecond(), 'g', 6, 64) + "/s"
	if r.GetPerSecond() > 0 && r.GetPerSecond() < 1 {
		text = strconv.FormatFloat(r.GetPerSecond()*3600, 'g', 6, 64) + "/h"
	}
	if r.GetBurst() > 0 {
		text += ", at once " + strconv.FormatFloat(r.GetBurst(), 'g', 6, 64)
	}
	return text
}

// said says what was done, unless err says that it was not.
func said(c *cli, err error, text string, args ...any) error {
	if err == nil && !c.wantsJSON() {
		c.printf(c.stderr, text, args...)
	}
	return err
}
