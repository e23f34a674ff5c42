package store

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// parted is a store that is exported in parts, and takes some of them.
type parted struct {
	Cluster
	parts   []*Contents
	takes   int // after so many parts add fails
	reading error
	added   []*Contents
}

func (*parted) Hosts(context.Context) ([]actor.Host, time.Time, error) { return nil, time.Time{}, nil }

func (p *parted) Export(_ context.Context, visit func(*Contents) error) error {
	for _, c := range p.parts {
		if err := visit(c); err != nil {
			return err
		}
	}
	return p.reading
}

func (p *parted) Import(_ context.Context, fill func(add func(*Contents) error) error) error {
	return fill(func(c *Contents) error {
		if len(p.added) == p.takes {
			return errors.New("full")
		}
		p.added = append(p.added, c)
		return nil
	})
}

// TestCopyNamesTheStoreThatFailed: a part that is not written, or not read, fails the copy.
func TestCopyNamesTheStoreThatFailed(t *testing.T) {
	parts := []*Contents{
		{Actors: []ActorRow{{}, {Row: actor.Row{Deleted: true}}}},
		{Settings: []actor.Setting{{Kind: actor.SettingSecret}}, Reminders: make([]actor.Reminder, 3)},
	}
	for name, c := range map[string]struct {
		from, to parted
		want     CopyCounts
		says     string
	}{
		"all":      {parted{parts: parts}, parted{takes: 2}, CopyCounts{Actors: 1, Tombstones: 1, Secrets: 1, Reminders: 3}, ""},
		"a write":  {parted{parts: parts}, parted{takes: 1}, CopyCounts{Actors: 1, Tombstones: 1}, "the store to copy to: full"},
		"a read":   {parted{parts: parts[:1], reading: errors.New("torn")}, parted{takes: 2}, CopyCounts{Actors: 1, Tombstones: 1}, "torn"},
		"no write": {parted{parts: parts}, parted{}, CopyCounts{}, "the store to copy to: full"},
	} {
		t.Run(name, func(t *testing.T) {
			var last CopyCounts
			n, err := Copy(t.Context(), &c.from, &c.to, func(n CopyCounts) { last = n })
			if (err == nil) != (c.says == "") || err != nil && err.Error() != c.says {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if n != c.want || last != c.want {
				t.Errorf("%+v were copied, and %+v said; want %+v", n, last, c.want)
			}
		})
	}
}

// TestPartsAreBounded: a part ends with what fills it, and the last one is what is left.
func TestPartsAreBounded(t *testing.T) {
	var sizes []int
	p := Parts{Visit: func(c *Contents) error {
		sizes = append(sizes, len(c.Actors))
		return nil
	}}
	add := func(bytes int) {
		if err := p.Add(bytes, func(c *Contents) { c.Actors = append(c.Actors, ActorRow{}) }); err != nil {
			t.Fatal(err)
		}
	}
	for range partThings + 1 {
		add(1)
	}
	add(partBytes)
	for range 3 {
		add(partBytes / 2)
	}
	for range 2 { // nothing is left for the second
		if err := p.End(); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int{partThings, 2, 2, 1}; !slices.Equal(sizes, want) {
		t.Errorf("parts of %v, want %v", sizes, want)
	}
}
