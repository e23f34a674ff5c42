// Command chat is a guest with three actor types: rooms, which services stand for, members, who
// say something to each other and see who is there, and directories, which list the rooms.
//
// Who is in a room is durable, and so are the messages by which members enter and leave. Lines, and notices of
// who enters or leaves, are volatile messages: fast, and lost with a server. A room and its members
// watch each other's servers, so that neither waits for a server that is lost.
package main

import "github.com/greenroom-run/greenroom/guest-sdk/go/actor"

func init() {
	actor.Register("Room",
		actor.Hooks{Activated: "Woken"},
		actor.Method("Open", (*Room).Open),
		actor.Method("Close", (*Room).Close),
		actor.ReadOnly("View", (*Room).View),
		actor.Method("Enter", (*Room).Enter, actor.Private()),
		actor.Method("Exit", (*Room).Exit, actor.Private()),
		actor.Method("Spread", (*Room).Spread, actor.Private()),
		actor.Method("Absent", (*Room).Absent, actor.Private()),
		actor.Method("Gone", (*Room).Gone, actor.Private()),
		actor.Method("Woken", (*Room).Woken, actor.Private()),
	)
	actor.Register("Member",
		actor.Method("Join", (*Member).Join),
		actor.Method("Leave", (*Member).Leave),
		actor.Method("Say", (*Member).Say),
		actor.ReadOnly("View", (*Member).View),
		actor.Method("Entered", (*Member).Entered, actor.Private()),
		actor.Method("Refused", (*Member).Refused, actor.Private()),
		actor.Method("Present", (*Member).Present, actor.Private()),
		actor.Method("Hear", (*Member).Hear, actor.Private()),
		actor.Method("Unsaid", (*Member).Unsaid, actor.Private()),
		actor.Method("Lost", (*Member).Lost, actor.Private()),
	)
	actor.Register("Directory",
		actor.Hooks{Activated: "Follow"},
		actor.Method("Follow", (*Directory).Follow),
		actor.ReadOnly("View", (*Directory).View),
		actor.Method("Changed", (*Directory).Changed, actor.Private()),
	)
}

func main() {}
