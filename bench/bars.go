package main

import (
	"maps"
	"slices"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/chains"
	"github.com/greenroom-run/greenroom/bench/internal/cluster"
	"github.com/greenroom-run/greenroom/bench/internal/fair"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/messages"
	"github.com/greenroom-run/greenroom/bench/internal/metering"
	"github.com/greenroom-run/greenroom/bench/internal/pipeline"
	"github.com/greenroom-run/greenroom/bench/internal/reminders"
	"github.com/greenroom-run/greenroom/bench/internal/role"
	"github.com/greenroom-run/greenroom/bench/internal/sight"
	"github.com/greenroom-run/greenroom/bench/internal/uploads"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// roles are what this program does in processes of its own.
func roles() role.Roles {
	all := role.Roles{
		wire.Role:            role.Of(wire.Load),
		wire.HollowRole:      wire.Hollow,
		wire.TraceRole:       wire.Trace,
		wire.OwnersRole:      role.Of(wire.Owners),
		inhost.Role:          role.Of(inhost.Load),
		inhost.ColdRole:      role.Of(inhost.Cold),
		inhost.GuestRole:     role.Of(inhost.Guest),
		bare.TransactionRole: role.Of(bare.Transaction),
		bare.GroupRole:       role.Of(bare.Group),
		bare.DatabaseRole:    bare.Database,
		bare.TransferRole:    role.Of(bare.Transfers),
		bare.PipelinedRole:   role.Of(bare.Pipelined),
		bare.PebbleRole:      role.Of(bare.Commits),
		bare.InsertRole:      role.Of(bare.Insert),
		bare.BulkRole:        role.Of(bare.Load),
		inhost.SteadyRole:    role.Of(inhost.Steady),
		inhost.FireRole:      role.Of(inhost.Fire),
		inhost.StoreRole:     role.Of(inhost.Store),
		inhost.FillRole:      role.Of(inhost.Fill),
		inhost.MessageRole:   role.Of(inhost.Messages),
		inhost.TellRole:      role.Of(inhost.Tells),
		bare.QueueRole:       role.Of(bare.Queue),
		inhost.WindowRole:    role.Of(inhost.Window),
		inhost.TakeOverRole:  role.Of(inhost.TakeOver),
		inhost.TracesRole:    role.Of(inhost.Traces),
	}
	maps.Copy(all, metering.Roles())
	maps.Copy(all, cluster.Roles())
	maps.Copy(all, reminders.Roles())
	maps.Copy(all, fair.Roles())
	maps.Copy(all, messages.Roles())
	maps.Copy(all, sight.Roles())
	return all
}

// bars are all there are, area by area.
func bars() []bar.Bar {
	return slices.Concat(pipeline.Bars(), metering.Bars(), cluster.Bars(), reminders.Bars(), uploads.Bars(), fair.Bars(), chains.Bars(), messages.Bars(), fair.Pools(), messages.Events(), sight.Bars())
}
