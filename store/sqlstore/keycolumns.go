package sqlstore

import "github.com/greenroom-run/greenroom/actor"

// keyColumns are keys turned on their side. Each key has its place, from 0, which identifies
// its row: neither database promises an order.
type keyColumns struct {
	apps, types, ids texts
	places           int8s
}

func (k *keyColumns) add(key actor.Key) {
	k.apps, k.types, k.ids = append(k.apps, key.App), append(k.types, key.Type), append(k.ids, key.ID)
	k.places = append(k.places, int64(len(k.places)))
}

// reset empties the columns, and keeps their memory.
func (k *keyColumns) reset() {
	clear(k.apps)
	clear(k.types)
	clear(k.ids)
	k.apps, k.types, k.ids, k.places = k.apps[:0], k.types[:0], k.ids[:0], k.places[:0]
}

// addRows adds the keys of the rows that a commit writes, and behind them of those
// that it fences.
func (k *keyColumns) addRows(c *actor.Commit) {
	for i := range c.Rows {
		k.add(c.Rows[i].Key)
	}
	for i := range c.Fences {
		k.add(c.Fences[i].Key)
	}
}
