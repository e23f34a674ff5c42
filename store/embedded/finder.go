package embedded

import "github.com/cockroachdb/pebble/v2"

// finder finds the values of keys; many of the keys may not be there. Pebble's Get does not
// ask the filters of the lowest level, where most of the data is: it reads a block there for
// each key that is nowhere. A finder does ask, and opens no file twice. It shows what was
// applied when it was made, and is for one goroutine, which closes it.
type finder struct {
	db *pebble.DB
	it *pebble.Iterator
}

// What finders look for.
var (
	actorKeys  = keysOf(actorSpace)
	recordKeys = keysOf(recordSpace)

	reminderKeys = keysOf(reminderSpace)
	tokenKeys    = keysOf(tokenSpace)
)

func keysOf(space string) pebble.IterOptions {
	return pebble.IterOptions{LowerBound: []byte(space), UpperBound: prefixEnd([]byte(space)), UseL6Filters: true}
}

// find returns a finder of keys.
func (s *Store) find(keys *pebble.IterOptions) (*finder, error) {
	it, err := s.db.NewIter(keys)
	if err != nil {
		return nil, err
	}
	return &finder{s.db, it}, nil
}

// get returns a copy of a value, nil if there is none.
func (f *finder) get(key []byte) ([]byte, error) {
	if f.it.SeekPrefixGE(key) {
		if v, err := f.it.ValueAndErr(); err == nil {
			return append(make([]byte, 0, len(v)), v...), nil
		}
	} else if f.it.Error() == nil {
		return nil, nil
	}
	// Something is damaged, and perhaps no more than a filter.
	return get(f.db, key)
}

// close ends the finder. What it could not read was read again.
func (f *finder) close() { _ = f.it.Close() }
