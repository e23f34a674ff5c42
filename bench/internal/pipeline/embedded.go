package pipeline

import (
	"context"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
)

// embeddedTurns is pipeline.2.
func embeddedTurns(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	if err := noteGuest(ctx, r, rec); err != nil {
		return err
	}
	return each(r, func(run int) error {
		base, err := bareLoop(ctx, r, rec, "bare Pebble loop, groups of 256", run,
			bare.Pebble{Plan: plan(r, many, actors, nil), Group: group, StateBytes: stateBytes})
		if err != nil {
			return err
		}
		turns, err := inHost(ctx, r, rec, "Greenroom, inside the host", run,
			inhost.Spec{Plan: plan(r, many, actors, nil), StateBytes: ballast, Method: "Add", Payload: "1"})
		if err != nil {
			return err
		}
		guest, err := guestAlone(ctx, r, rec, run, addAlone)
		if err == nil {
			compareParts(rec, "CPU against its parts", turns, part{"a row", base}, part{"the guest", guest})
		}
		return err
	})
}

// largeStates is pipeline.7. The guest reads and writes its count; the ballast
// beside it is stored again with every turn, and that is what is measured.
func largeStates(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	for _, size := range []struct {
		name          string
		bytes, actors int
		group         int
	}{
		// As many bytes in a group as the pipeline's own groups have, at most.
		{"10 KB", 10_000, 5_000, 256},
		{"100 KB", 100_000, 500, 40},
	} {
		outstanding := 4 * size.group
		err := each(r, func(run int) error {
			base, err := bareLoop(ctx, r, rec, "bare grouped write, "+size.name, run,
				bare.Pebble{Plan: plan(r, outstanding, size.actors, nil), Group: size.group, StateBytes: size.bytes})
			if err != nil {
				return err
			}
			turns, err := inHost(ctx, r, rec, "Greenroom, inside the host, "+size.name, run,
				inhost.Spec{Plan: plan(r, outstanding, size.actors, nil), StateBytes: size.bytes, Method: "Add", Payload: "1"})
			if err != nil {
				return err
			}
			rec.Compare(size.name, turns.Rate(), base.Rate())
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
