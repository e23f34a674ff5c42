package node

import (
	"time"

	"github.com/greenroom-run/greenroom/host/feed"
	"github.com/greenroom-run/greenroom/modules"
)

// eventRetention returns what types keep of the events of their actors, by their manifests.
func eventRetention(mods *modules.Service) func(app, typ string) feed.Retention {
	return func(app, typ string) feed.Retention {
		_, spec, err := mods.Current(app, typ)
		if err != nil {
			return feed.Retention{}
		}
		e := spec.Events
		return feed.Retention{Count: e.Count, Bytes: e.Bytes, Age: time.Duration(e.AgeMillis) * time.Millisecond}
	}
}
