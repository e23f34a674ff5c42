package extism

import (
	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/engine/confine"
)

func send(c *call, s []uint64) {
	m, err := decodeMessage(c.copied(s[0]))
	if err != nil {
		c.invalid("message", "was given a message that is not as docs/extism.md has it: "+err.Error())
	}
	code, err := c.turn().calls.Send(m)
	if err != nil {
		panic(&confine.Stop{Err: err})
	}
	c.refuseFor("message", code)
}

func spawn(c *call, s []uint64) {
	id, code := c.turn().calls.Spawn(c.bytes(s[0]))
	c.refuseFor("type", code)
	s[0] = c.block([]byte(id))
}

func spawnChild(c *call, s []uint64) {
	typ, flags := string(c.bytes(s[0])), uint32(0)
	if s[1] != 0 {
		flags = abi.ChildShared
	}
	id, code := c.turn().calls.SpawnChild(typ, flags)
	c.refuseFor("type", code)
	s[0] = c.block([]byte(id))
}

func become(c *call, s []uint64) { c.refuseFor("set", c.turn().calls.Become(c.bytes(s[0]))) }

func passAway(c *call, _ []uint64) { c.refuse(c.turn().calls.PassAway()) }

func serviceClaim(c *call, s []uint64) {
	c.refuseFor("service", c.turn().calls.ServiceClaim(c.copied(s[0])))
}

func serviceRelease(c *call, s []uint64) {
	held, code := c.turn().calls.ServiceRelease(c.copied(s[0]))
	c.refuseFor("service", code)
	s[0] = yes(held)
}

func eventPublish(c *call, s []uint64) {
	c.refuseFor("event", c.turn().calls.Publish(string(c.bytes(s[0])), "", c.copied(s[1])))
}

func eventSubscribe(c *call, s []uint64) {
	code, err := c.turn().calls.EventSubscribe(string(c.bytes(s[0])), string(c.bytes(s[1])), string(c.bytes(s[2])))
	if err != nil {
		panic(&confine.Stop{Err: err})
	}
	c.refuseFor("subscription", code)
}

func eventUnsubscribe(c *call, s []uint64) {
	subscribed, code, err := c.turn().calls.EventUnsubscribe(string(c.bytes(s[0])), string(c.bytes(s[1])))
	if err != nil {
		panic(&confine.Stop{Err: err})
	}
	c.refuseFor("subscription", code)
	s[0] = yes(subscribed)
}

func hostWatch(c *call, s []uint64) {
	typ, id, method := string(c.bytes(s[0])), string(c.bytes(s[1])), string(c.bytes(s[2]))
	replaced, code := c.turn().calls.HostWatch(typ, id, method)
	c.refuseFor("watch", code)
	s[0] = yes(replaced)
}

func serviceWatch(c *call, s []uint64) {
	replaced, code := c.turn().calls.ServiceWatch(string(c.bytes(s[0])), string(c.bytes(s[1])))
	c.refuseFor("watch", code)
	s[0] = yes(replaced)
}
