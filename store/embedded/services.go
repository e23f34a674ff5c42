package embedded

import (
	"bytes"
	"context"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// services reads who stands for services. serviceWrites changes it.
type services struct{ *writer }

func (s *services) FindService(ctx context.Context, app, name string) (found actor.Service, err error) {
	if err := actor.ValidateService(name); err != nil {
		return found, err
	}
	list, err := s.ListServices(ctx, actor.ServiceQuery{App: app, Prefix: name, Limit: 1})
	if err == nil && len(list) > 0 && list[0].Name == name {
		found = list[0]
	}
	return found, err
}

func (s *services) ListServices(ctx context.Context, q actor.ServiceQuery) (list []actor.Service, err error) {
	if err := store.ValidateServiceQuery(&q); err != nil {
		return nil, err
	}
	app := servicePrefix(q.App)
	from := append(bytes.Clone(app), q.Prefix...)
	to := prefixEnd(from)
	if q.After >= q.Prefix && q.After != "" {
		from = append(append(bytes.Clone(app), q.After...), 0)
	}
	err = s.list(ctx, from, to, func(key, value []byte) (more bool, err error) {
		var r serviceRecord
		if err := decodeRecord(key, value, &r); err != nil {
			return false, err
		}
		list = append(list, r.service(q.App, string(key[len(app):])))
		return len(list) < q.Limit, nil
	})
	return list, err
}
