package abi_test

import (
	"encoding/hex"
	"math"
)

func reminderVectors() []frameVector {
	ok := func(name, data string, canonical bool, v reminderValue) frameVector {
		if v.Metadata == nil {
			v.Metadata = []headerValue{}
		}
		return frameVector{Name: name, Hex: hex.EncodeToString([]byte(data)), Canonical: canonical, Reminder: &v}
	}
	full := []raw{
		{1, "bill 💚"}, {2, "Bill"}, {3, "application/json"}, {4, "{}\x00"}, {5, u64(1_800_000_000_123_456_789)}, {6, u64(90_000_000_001)},
		{7, "0 9 * * MON"}, {8, "Europe/Berlin"}, {9, u32(12)}, {10, u64(1_900_000_000_000_000_000)}, {11, "\x02"}, {12, u32(5)},
		{13, header("plan", "gold") + header("empty", "")}, {14, u64(math.MaxInt64)}, {15, u64(1500)}, {16, u32(7)}, {17, u64(60_000_000_000)},
		{18, "\x01"}, {19, u64(1_000_000_000)}, {20, u64(3_600_000_000_000)}, {21, u32(1)},
	}
	return []frameVector{
		ok("every field", list(7, full...), true, reminderValue{
			Name: "bill 💚", Method: "Bill", ContentType: "application/json", Payload: "7b7d00", DueUnixNano: 1_800_000_000_123_456_789,
			PeriodNano: 90_000_000_001, Cron: "0 9 * * MON", Zone: "Europe/Berlin", Count: 12, UntilNano: 1_900_000_000_000_000_000,
			Missed: 2, Attempts: 5, Metadata: []headerValue{{"plan", "gold"}, {"empty", ""}}, DelayNano: math.MaxInt64, JitterNano: 1500,
			MissedLimit: 7, MissedAfter: 60_000_000_000, Failure: 1, IntervalNano: 1_000_000_000, LongestNano: 3_600_000_000_000, Flags: 1,
		}),
		ok("once, at once", list(7, raw{1, "r"}, raw{2, "M"}), true, reminderValue{Name: "r", Method: "M"}),
		ok("a delay", list(7, raw{1, "r"}, raw{2, "M"}, raw{14, u64(1)}), true, reminderValue{Name: "r", Method: "M", DelayNano: 1}),
		ok("a negative period, for the host to refuse", list(7, raw{6, u64(math.MaxUint64)}), true, reminderValue{PeriodNano: -1}),
		ok("a time before 1970", list(7, raw{5, u64(math.MaxUint64)}), true, reminderValue{DueUnixNano: -1}),
		ok("nothing", list(7), true, reminderValue{}),
		ok("zeros written out", list(7, raw{1, "r"}, raw{6, u64(0)}, raw{11, "\x00"}, raw{13, ""}), false, reminderValue{Name: "r"}),
		ok("an unknown tag", list(7, raw{1, "r"}, raw{99, "newer"}), false, reminderValue{Name: "r"}),

		refused("a request frame", list(3), "reminder frame, byte 1: kind 3, not 7"),
		refused("a name that is not UTF-8", list(7, raw{1, "\xff"}), "reminder frame, byte 2: tag 1 is not UTF-8"),
		refused("a due time in seconds", list(7, raw{5, u32(1)}), "reminder frame, byte 2: tag 5 has 4 bytes, not 8"),
		refused("a narrow period", list(7, raw{6, u32(1)}), "reminder frame, byte 2: tag 6 has 4 bytes, not 8"),
		refused("a wide count", list(7, raw{9, u64(1)}), "reminder frame, byte 2: tag 9 has 8 bytes, not 4"),
		refused("a wide policy", list(7, raw{11, u16(1)}), "reminder frame, byte 2: tag 11 has 2 bytes, not 1"),
		refused("metadata without a name", list(7, raw{13, header("", "v")}), "reminder frame, byte 2: tag 13 has a header without a name"),
		refused("metadata that ends early", list(7, raw{13, u32(3) + "ab"}), "reminder frame, byte 2: tag 13 ends inside a header"),
		refused("a delay that ends early", list(7)+u16(14)+u32(8)+"1234", "reminder frame, byte 2: tag 14 claims 8 bytes, 4 are left"),
		refused("out of order", list(7, raw{2, "M"}, raw{1, "r"}), "reminder frame, byte 9: tag 1 after tag 2"),
	}
}
