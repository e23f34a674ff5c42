package embedded

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// reader reads a copy of a value, nil if there is none.
type reader interface {
	get(key []byte) ([]byte, error)
}

// get returns a copy of a value, nil if there is none.
func get(r pebble.Reader, key []byte) ([]byte, error) {
	v, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v = append(make([]byte, 0, len(v)), v...)
	return v, closer.Close()
}

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
