package embedded

import "github.com/cockroachdb/pebble/v2"

// draft is the batch of a decision.
type draft struct {
	*core
	// now is database time in microseconds since 1970.
	now     int64
	batch   *pebble.Batch
	marks   marks // actor rows and records written
	stamped bool  // the time is to be written
}

// get returns a copy of a stored value, nil if there is none. It does not see
// what the decision itself has written.
func (d *draft) get(key []byte) ([]byte, error) { return get(d.db, key) }

func (d *draft) set(key, value []byte) { d.must(d.batch.Set(key, value, nil)) }

func (d *draft) delete(key []byte) { d.must(d.batch.Delete(key, nil)) }

func (d *draft) deleteRange(from, to []byte) { d.must(d.batch.DeleteRange(from, to, nil)) }

// stamp has the time written, so that it never goes back, not even after a
// restart.
func (d *draft) stamp() { d.stamped = true }

// wrote notes that a row or a record was written or removed.
func (d *draft) wrote(key []byte) { d.marks.add(d.syncs.hash(key)) }

// must is for errors that only a misused batch gives.
func (d *draft) must(err error) {
	if err != nil {
		panic(err)
	}
}

func (d *draft) setRecord(key []byte, v any) error {
	value, err := encodeRecord(key, v)
	if err != nil {
		return err
	}
	d.set(key, value)
	d.stamp()
	return nil
}
