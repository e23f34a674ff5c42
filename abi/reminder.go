package abi

// Reminder is the reminder frame: what a guest asks for, and what a guest receives about
// an existing reminder. Times are nanoseconds since 1970 UTC, durations nanoseconds; 0
// means none. Strings and bytes of a decoded Reminder alias its frame.
type Reminder struct {
	Name, Method string
	ContentType  string
	Payload      []byte
	DueUnixNano  int64 // the first occurrence; 0: DelayNano from when it is set
	PeriodNano   int64
	Cron, Zone   string
	Count        uint32 // of occurrences; 0: no limit
	UntilNano    int64
	Missed       uint8
	Attempts     uint32 // deliveries of one occurrence; 0: the host's default
	Metadata     []Header
	DelayNano    int64
	JitterNano   int64
	MissedLimit  uint32
	MissedAfter  int64 // nanoseconds
	Failure      uint8
	IntervalNano int64
	LongestNano  int64
	Flags        uint32
}

// What happens to occurrences that nobody could deliver in time.
const (
	MissedCollapse uint8 = 0
	MissedSkip     uint8 = 1
	MissedCatchUp  uint8 = 2
)

// What happens to a firing whose turn failed.
const (
	FailureConstant    uint8 = 0
	FailureExponential uint8 = 1
	FailureDrop        uint8 = 2
)

// FlagKeep is bit 0 of a reminder's flags: one of that name that is there stays as it
// is.
const FlagKeep uint32 = 1

const reminderFrame = "reminder frame"

// Tags of the reminder frame.
const (
	tagReminderName        = 1
	tagReminderMethod      = 2
	tagReminderContentType = 3
	tagReminderPayload     = 4
	tagReminderDue         = 5
	tagReminderPeriod      = 6
	tagReminderCron        = 7
	tagReminderZone        = 8
	tagReminderCount       = 9
	tagReminderUntil       = 10
	tagReminderMissed      = 11
	tagReminderAttempts    = 12
	tagReminderMetadata    = 13
	tagReminderDelay       = 14
	tagReminderJitter      = 15
	tagReminderMissedLimit = 16
	tagReminderMissedAfter = 17
	tagReminderFailure     = 18
	tagReminderInterval    = 19
	tagReminderLongest     = 20
	tagReminderFlags       = 21
)

// AppendReminder appends the reminder frame of r to dst. Texts must be UTF-8.
func AppendReminder(dst []byte, r *Reminder) []byte {
	dst = appendFieldList(dst, KindReminder)
	dst = appendText(dst, tagReminderName, r.Name)
	dst = appendText(dst, tagReminderMethod, r.Method)
	dst = appendText(dst, tagReminderContentType, r.ContentType)
	dst = appendBytes(dst, tagReminderPayload, r.Payload)
	dst = appendU64(dst, tagReminderDue, uint64(r.DueUnixNano))
	dst = appendU64(dst, tagReminderPeriod, uint64(r.PeriodNano))
	dst = appendText(dst, tagReminderCron, r.Cron)
	dst = appendText(dst, tagReminderZone, r.Zone)
	dst = appendU32(dst, tagReminderCount, r.Count)
	dst = appendU64(dst, tagReminderUntil, uint64(r.UntilNano))
	dst = appendU8(dst, tagReminderMissed, r.Missed)
	dst = appendU32(dst, tagReminderAttempts, r.Attempts)
	dst = appendHeaders(dst, tagReminderMetadata, r.Metadata)
	dst = appendU64(dst, tagReminderDelay, uint64(r.DelayNano))
	dst = appendU64(dst, tagReminderJitter, uint64(r.JitterNano))
	dst = appendU32(dst, tagReminderMissedLimit, r.MissedLimit)
	dst = appendU64(dst, tagReminderMissedAfter, uint64(r.MissedAfter))
	dst = appendU8(dst, tagReminderFailure, r.Failure)
	dst = appendU64(dst, tagReminderInterval, uint64(r.IntervalNano))
	dst = appendU64(dst, tagReminderLongest, uint64(r.LongestNano))
	return appendU32(dst, tagReminderFlags, r.Flags)
}

// DecodeReminder decodes a reminder frame into r, all of which it overwrites. A frame
// that is not well formed is a [*FrameError].
func DecodeReminder(frame []byte, r *Reminder) error {
	*r = Reminder{}
	return eachField(reminderFrame, KindReminder, frame, func(f *fieldReader, tag uint16, value []byte) error {
		switch tag {
		case tagReminderName:
			return f.text(&r.Name, value)
		case tagReminderMethod:
			return f.text(&r.Method, value)
		case tagReminderContentType:
			return f.text(&r.ContentType, value)
		case tagReminderPayload:
			r.Payload = value
		case tagReminderDue:
			return f.i64(&r.DueUnixNano, value)
		case tagReminderPeriod:
			return f.i64(&r.PeriodNano, value)
		case tagReminderCron:
			return f.text(&r.Cron, value)
		case tagReminderZone:
			return f.text(&r.Zone, value)
		case tagReminderCount:
			return f.u32(&r.Count, value)
		case tagReminderUntil:
			return f.i64(&r.UntilNano, value)
		case tagReminderMissed:
			return f.u8(&r.Missed, value)
		case tagReminderAttempts:
			return f.u32(&r.Attempts, value)
		case tagReminderMetadata:
			return f.headers(&r.Metadata, value)
		case tagReminderDelay:
			return f.i64(&r.DelayNano, value)
		case tagReminderJitter:
			return f.i64(&r.JitterNano, value)
		case tagReminderMissedLimit:
			return f.u32(&r.MissedLimit, value)
		case tagReminderMissedAfter:
			return f.i64(&r.MissedAfter, value)
		case tagReminderFailure:
			return f.u8(&r.Failure, value)
		case tagReminderInterval:
			return f.i64(&r.IntervalNano, value)
		case tagReminderLongest:
			return f.i64(&r.LongestNano, value)
		case tagReminderFlags:
			return f.u32(&r.Flags, value)
		}
		return nil
	})
}
