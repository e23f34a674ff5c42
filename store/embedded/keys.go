package embedded

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// The keyspaces; doc.go describes them. Each ends in '/', so that '0', the byte
// after it, bounds the keyspace from above.
const (
	actorSpace   = "actor/"
	tombSpace    = "tomb/"
	moduleSpace  = "module/"
	chunkSpace   = "chunk/"
	uploadSpace  = "upload/"
	deploySpace  = "deploy/"
	currentSpace = "current/"
	recordSpace  = "record/"
	expirySpace  = "expiry/"
	settingSpace = "setting/"
	serviceSpace = "service/"
	standsSpace  = "stands/"

	reminderSpace = "reminder/"
	tokenSpace    = "token/"
	dueSpace      = "due/"
	deadSpace     = "dead/"
	bucketSpace   = "bucket/"
	lapSpace      = "lap/"
	eventSpace    = "event/"

	formatKey = "meta/format"
	clockKey  = "meta/clock"
)

var errShortKey = errors.New("key is too short")

func actorKey(k actor.Key) []byte { return appendActorKey(nil, k) }

// appendActorKey appends actorKey(k).
func appendActorKey(dst []byte, k actor.Key) []byte {
	dst = append(dst, actorSpace...)
	dst = append(append(dst, k.App...), "||"...)
	dst = append(append(dst, k.Type...), "||"...)
	return append(dst, k.ID...)
}

// actorPrefix is what the keys of all actors of a type begin with.
func actorPrefix(app, typ string) []byte { return []byte(actorSpace + app + "||" + typ + "||") }

func tombKey(micros int64, k actor.Key) []byte {
	b := binary.BigEndian.AppendUint64([]byte(tombSpace), uint64(micros))
	return append(b, k.String()...)
}

func tombUpperBound(micros int64) []byte {
	return binary.BigEndian.AppendUint64([]byte(tombSpace), uint64(micros))
}

// parseTombKey reads what tombKey wrote.
func parseTombKey(b []byte) (micros int64, k actor.Key, err error) {
	b = b[len(tombSpace):]
	if len(b) < 8 {
		return 0, actor.Key{}, errShortKey
	}
	k, err = actor.ParseKey(string(b[8:]))
	return int64(binary.BigEndian.Uint64(b)), k, err
}

func recordKey(id store.RecordID) []byte { return append([]byte(recordSpace), id[:]...) }

// expiryKey is where the records that expire at a time and were written together
// are listed; first is one of them.
func expiryKey(micros int64, first store.RecordID) []byte {
	return append(expiryUpperBound(micros), first[:]...)
}

func expiryUpperBound(micros int64) []byte {
	return binary.BigEndian.AppendUint64([]byte(expirySpace), uint64(micros))
}

// parseExpiryKey reads the time of what expiryKey wrote.
func parseExpiryKey(b []byte) (micros int64, err error) {
	b = b[len(expirySpace):]
	if len(b) != 8+len(store.RecordID{}) {
		return 0, errShortKey
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

func modulePrefix(app string) []byte { return []byte(moduleSpace + app + "\x00") }

func moduleKey(app string, d actor.Digest) []byte {
	return []byte(moduleSpace + app + "\x00" + string(d))
}

func uploadKey(app string, d actor.Digest) []byte {
	return []byte(uploadSpace + app + "\x00" + string(d))
}

// chunkPrefix is what the keys of a module's chunks begin with. Digests have
// one length, so no prefix is the beginning of another.
func chunkPrefix(app string, d actor.Digest) []byte {
	return []byte(chunkSpace + app + "\x00" + string(d))
}

func chunkKey(app string, d actor.Digest, n int) []byte {
	return binary.BigEndian.AppendUint32(chunkPrefix(app, d), uint32(n))
}

func deployPrefix(app, typ string) []byte {
	return []byte(deploySpace + app + "\x00" + typ + "\x00")
}

func deployKey(app, typ string, generation uint64) []byte {
	return binary.BigEndian.AppendUint64(deployPrefix(app, typ), generation)
}

// currentPrefix is what the keys of the types of an app begin with; app empty:
// those of every app.
func currentPrefix(app string) []byte {
	if app == "" {
		return []byte(currentSpace)
	}
	return []byte(currentSpace + app + "\x00")
}

func currentKey(app, typ string) []byte { return append(currentPrefix(app), typ...) }

func settingPrefix(app string) []byte { return []byte(settingSpace + app + "\x00") }

func settingKey(app string, kind actor.SettingKind, name string) []byte {
	return []byte(settingSpace + app + "\x00" + string(kind) + "\x00" + name)
}

func servicePrefix(app string) []byte { return []byte(serviceSpace + app + "\x00") }

func serviceKey(app, name string) []byte { return append(servicePrefix(app), name...) }

// standsKey is in the index of the services that an actor stands for.
func standsKey(k actor.Key, name string) []byte { return append(standsPrefix(k), name...) }

func standsPrefix(k actor.Key) []byte {
	return []byte(standsSpace + k.App + "\x00" + k.Type + "\x00" + k.ID + "\x00")
}

// reminderKey is where a reminder is stored; actor IDs and names have no zero bytes.
func reminderKey(n actor.ReminderName) []byte {
	return append(remindersOf(n.Key), n.Name...)
}

// remindersOf is what the keys of all reminders of an actor begin with.
func remindersOf(k actor.Key) []byte {
	return []byte(reminderSpace + k.App + "\x00" + k.Type + "\x00" + k.ID + "\x00")
}

// eventsOf is what the keys of all events of an actor begin with.
func eventsOf(k actor.Key) []byte {
	return []byte(eventSpace + k.App + "\x00" + k.Type + "\x00" + k.ID + "\x00")
}

// eventKey is where an event is stored: in the order of positions.
func eventKey(k actor.Key, at actor.EventPosition) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(eventsOf(k), at.Version), at.Index)
}

// parseReminderKey reads what reminderKey wrote.
func parseReminderKey(b []byte) (n actor.ReminderName, err error) {
	part := strings.SplitN(string(b[len(reminderSpace):]), "\x00", 4)
	if len(part) != 4 {
		return n, errShortKey
	}
	return actor.ReminderName{Key: actor.Key{App: part[0], Type: part[1], ID: part[2]}, Name: part[3]}, nil
}

// appendLap appends what the tokens of one lap have in common.
func appendLap(dst []byte, p actor.Prefix, v actor.Vector) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(p)), v[:]...)
}

// tokenKey is where the key of the reminder with an ID is stored.
func tokenKey(id actor.ReminderID) []byte {
	return binary.BigEndian.AppendUint32(appendLap([]byte(tokenSpace), id.Prefix, id.Vector), id.Token)
}

// dueKey is in the index of what a bucket has to deliver, by time.
func dueKey(b actor.Bucket, micros int64, token uint32) []byte {
	k := appendBucket([]byte(dueSpace), b)
	k = binary.BigEndian.AppendUint64(k, orderedTime(micros))
	return binary.BigEndian.AppendUint32(k, token)
}

// orderedTime has the order of signed times as an unsigned number.
func orderedTime(micros int64) uint64 { return uint64(micros) ^ 1<<63 }

// parseDueKey reads the time and token of what dueKey wrote.
func parseDueKey(k []byte) (micros int64, token uint32, err error) {
	if len(k) != len(dueSpace)+16+12 {
		return 0, 0, errShortKey
	}
	k = k[len(dueSpace)+16:]
	return int64(binary.BigEndian.Uint64(k) ^ 1<<63), binary.BigEndian.Uint32(k[8:]), nil
}

func appendBucket(dst []byte, b actor.Bucket) []byte {
	return binary.BigEndian.AppendUint32(appendLap(dst, b.Prefix, b.Vector), b.Index)
}

func bucketKey(b actor.Bucket) []byte { return appendBucket([]byte(bucketSpace), b) }

func lapKey(app string) []byte { return []byte(lapSpace + app) }

// deadKey is where a dead letter is stored.
func deadKey(id actor.ReminderID, due int64) []byte {
	k := binary.BigEndian.AppendUint32(appendLap([]byte(deadSpace), id.Prefix, id.Vector), id.Token)
	return binary.BigEndian.AppendUint64(k, orderedTime(due))
}

// prefixEnd is the first key after all keys that begin with prefix.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}

// layoutVersion is the version of the layout in doc.go. A folder of another one
// is refused.
const layoutVersion = "1"

// unfinishedLayout is what the layout's version is while a store is copied into the folder.
const unfinishedLayout = "unfinished copy"
