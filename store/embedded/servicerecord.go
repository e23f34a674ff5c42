package embedded

import (
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// serviceRecord is who stands for a service.
type serviceRecord struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	ClaimedAt int64  `json:"claimed_at"` // microseconds since 1970
}

func (r *serviceRecord) service(app, name string) actor.Service {
	return actor.Service{Name: name, Actor: actor.Key{App: app, Type: r.Type, ID: r.ID}, ClaimedAt: time.UnixMicro(r.ClaimedAt).UTC()}
}

// of reports whether it is the actor that stands for the service. r may be nil.
func (r *serviceRecord) of(k actor.Key) bool { return r != nil && r.Type == k.Type && r.ID == k.ID }
