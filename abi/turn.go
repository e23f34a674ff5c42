package abi

const turnFrame = "turn frame"

// Tags of the turn frame.
const (
	tagTurnWhat         = 1
	tagTurnFlags        = 2
	tagTurnApp          = 3
	tagTurnType         = 4
	tagTurnID           = 5
	tagTurnMethod       = 6
	tagTurnInvocationID = 7
	tagTurnTime         = 8
	tagTurnRevision     = 9
	tagTurnStoredSchema = 10
	tagTurnContentType  = 11
	tagTurnPayload      = 12
	tagTurnCause        = 13
	tagTurnCallerType   = 14
	tagTurnCallerID     = 15
	tagTurnCauseName    = 16
	tagTurnDue          = 17
	tagTurnAttempt      = 18
	tagTurnMissed       = 19
	tagTurnCookie       = 20
	tagTurnMethodSet    = 21
	tagTurnFailed       = 22
	tagTurnMetadata     = 23
	tagTurnByType       = 24
	tagTurnByID         = 25
)

// maxTurnNumbers is what a turn frame takes beside the bytes of its texts and
// its payload: the header of the list, 25 field headers and the ten numbers.
const maxTurnNumbers = fieldListHeader + 25*fieldHeader + 1 + 4 + 8 + 8 + 4 + 1 + 8 + 4 + 4 + 8

// MaxTurnSize returns an upper bound of what [AppendTurn] appends, at most 202
// bytes too much: the capacity of a buffer in which it does not allocate.
func MaxTurnSize(t *Turn) int {
	return maxTurnNumbers + len(t.App) + len(t.Type) + len(t.ID) + len(t.Method) +
		len(t.InvocationID) + len(t.ContentType) + len(t.Payload) + len(t.CallerType) + len(t.CallerID) + len(t.CauseName) + headersSize(t.Metadata) +
		len(t.MethodSet) + len(t.Failed) + len(t.ByType) + len(t.ByID)
}

// AppendTurn appends the turn frame of t to dst. It allocates only when dst has
// not the capacity; see [MaxTurnSize]. Texts must be UTF-8 and no field larger
// than 4 GiB, which hosts ensure long before.
func AppendTurn(dst []byte, t *Turn) []byte {
	dst = appendFieldList(dst, KindTurn)
	dst = appendU8(dst, tagTurnWhat, t.What)
	dst = appendU32(dst, tagTurnFlags, t.Flags)
	dst = appendText(dst, tagTurnApp, t.App)
	dst = appendText(dst, tagTurnType, t.Type)
	dst = appendText(dst, tagTurnID, t.ID)
	dst = appendText(dst, tagTurnMethod, t.Method)
	dst = appendText(dst, tagTurnInvocationID, t.InvocationID)
	dst = appendU64(dst, tagTurnTime, uint64(t.TimeUnixNano))
	dst = appendU64(dst, tagTurnRevision, t.Revision)
	dst = appendU32(dst, tagTurnStoredSchema, t.StoredSchema)
	dst = appendText(dst, tagTurnContentType, t.ContentType)
	dst = appendBytes(dst, tagTurnPayload, t.Payload)
	dst = appendU8(dst, tagTurnCause, t.Cause)
	dst = appendText(dst, tagTurnCallerType, t.CallerType)
	dst = appendText(dst, tagTurnCallerID, t.CallerID)
	dst = appendText(dst, tagTurnCauseName, t.CauseName)
	dst = appendU64(dst, tagTurnDue, uint64(t.DueUnixNano))
	dst = appendU32(dst, tagTurnAttempt, t.Attempt)
	dst = appendU32(dst, tagTurnMissed, t.Missed)
	dst = appendU64(dst, tagTurnCookie, t.Cookie)
	dst = appendText(dst, tagTurnMethodSet, t.MethodSet)
	dst = appendText(dst, tagTurnFailed, t.Failed)
	dst = appendHeaders(dst, tagTurnMetadata, t.Metadata)
	dst = appendText(dst, tagTurnByType, t.ByType)
	return appendText(dst, tagTurnByID, t.ByID)
}

// DecodeTurn decodes a turn frame into t, all of which it overwrites. Strings
// and payload alias the frame: they are good for as long as its bytes stay as
// they are. A frame that is not well formed is a [*FrameError]; t is then of no
// use.
func DecodeTurn(frame []byte, t *Turn) error {
	*t = Turn{}
	r, err := readFields(turnFrame, KindTurn, frame) // not eachField: a guest pays for each call
	if err != nil {
		return err
	}
	for {
		tag, value, err := r.next()
		if err != nil {
			return err
		}
		switch tag {
		case 0:
			return nil
		case tagTurnWhat:
			err = r.u8(&t.What, value)
		case tagTurnFlags:
			err = r.u32(&t.Flags, value)
		case tagTurnApp:
			err = r.text(&t.App, value)
		case tagTurnType:
			err = r.text(&t.Type, value)
		case tagTurnID:
			err = r.text(&t.ID, value)
		case tagTurnMethod:
			err = r.text(&t.Method, value)
		case tagTurnInvocationID:
			err = r.text(&t.InvocationID, value)
		case tagTurnTime:
			err = r.i64(&t.TimeUnixNano, value)
		case tagTurnRevision:
			err = r.u64(&t.Revision, value)
		case tagTurnStoredSchema:
			err = r.u32(&t.StoredSchema, value)
		case tagTurnContentType:
			err = r.text(&t.ContentType, value)
		case tagTurnPayload:
			t.Payload = value
		case tagTurnCause:
			err = r.u8(&t.Cause, value)
		case tagTurnCallerType:
			err = r.text(&t.CallerType, value)
		case tagTurnCallerID:
			err = r.text(&t.CallerID, value)
		case tagTurnCauseName:
			err = r.text(&t.CauseName, value)
		case tagTurnDue:
			err = r.i64(&t.DueUnixNano, value)
		case tagTurnAttempt:
			err = r.u32(&t.Attempt, value)
		case tagTurnMissed:
			err = r.u32(&t.Missed, value)
		case tagTurnCookie:
			err = r.u64(&t.Cookie, value)
		case tagTurnMethodSet:
			err = r.text(&t.MethodSet, value)
		case tagTurnFailed:
			err = r.text(&t.Failed, value)
		case tagTurnMetadata:
			err = r.headers(&t.Metadata, value)
		case tagTurnByType:
			err = r.text(&t.ByType, value)
		case tagTurnByID:
			err = r.text(&t.ByID, value)
		}
		if err != nil {
			return err
		}
	}
}
