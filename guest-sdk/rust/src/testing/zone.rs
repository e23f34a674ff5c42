//! Time zones of cron expressions, with the IANA data if the crate has the feature `zones`.
//! All times are seconds since 1970; a wall time is what the wall shows, written as if it
//! were UTC.

const DAY: i64 = 86_400;

/// A time zone.
#[derive(Clone, Copy)]
pub(super) enum Zone {
    Utc,
    #[cfg(feature = "zones")]
    Iana(&'static tz::TimeZoneRef<'static>),
}

impl Zone {
    /// The zone of an IANA name; UTC if it is empty. The error says what to change.
    pub(super) fn find(name: &str) -> Result<Zone, String> {
        if name.is_empty() || name == "UTC" {
            return Ok(Zone::Utc);
        }
        #[cfg(feature = "zones")]
        return match tzdb_data::find_tz(name.as_bytes()) {
            // The look-up ignores the case of names, which a host does not.
            Some(zone) if tzdb_data::TZ_NAMES.contains(&name) => Ok(Zone::Iana(zone)),
            _ => Err(format!(
                "the time zone {name:?} is not known; give an IANA name such as Europe/Berlin"
            )),
        };
        #[cfg(not(feature = "zones"))]
        Err(format!("the test kit has no time zone {name:?} without the feature `zones` of the crate greenroom: enable it, or test this schedule on a server"))
    }

    /// How far the wall is ahead of UTC at a time.
    pub(super) fn offset(self, _time: i64) -> i64 {
        match self {
            Zone::Utc => 0,
            #[cfg(feature = "zones")]
            Zone::Iana(zone) => zone
                .find_local_time_type(_time)
                .map_or(0, |t| i64::from(t.ut_offset())),
        }
    }

    /// The first change of the clocks after a time and not after another one.
    pub(super) fn change(self, after: i64, until: i64) -> Option<i64> {
        let before = self.offset(after);
        let mut low = after;
        while low < until {
            // No zone changes its clocks twice in two days.
            let mut high = until.min(low.saturating_add(DAY));
            if self.offset(high) == before {
                low = high;
                continue;
            }
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if self.offset(middle) == before {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            return Some(high);
        }
        None
    }

    /// When the wall first shows a time, or the end of the gap that it falls into.
    pub(super) fn moment(self, wall: i64) -> i64 {
        let candidates = [-DAY, DAY].map(|near| wall - self.offset(wall + near));
        let first = candidates[0].min(candidates[1]);
        let second = candidates[0].max(candidates[1]);
        for t in [first, second] {
            if t + self.offset(t) == wall {
                return t;
            }
        }
        self.change(first, second).unwrap_or(second)
    }
}

#[cfg(all(test, feature = "zones"))]
mod tests {
    use super::Zone;

    const HOUR: i64 = 3600;
    const SPRING: i64 = 1_774_746_000; // 2026-03-29 01:00 UTC: in Berlin 2 becomes 3
    const AUTUMN: i64 = 1_792_890_000; // 2026-10-25 01:00 UTC: in Berlin 3 becomes 2

    #[test]
    fn berlin() {
        let berlin = Zone::find("Europe/Berlin").unwrap();
        assert_eq!(berlin.offset(SPRING - 1), HOUR);
        assert_eq!(berlin.offset(SPRING), 2 * HOUR);
        assert_eq!(berlin.change(SPRING - 40 * HOUR, AUTUMN), Some(SPRING));
        assert_eq!(berlin.change(SPRING, AUTUMN), Some(AUTUMN));
        assert_eq!(berlin.change(SPRING, AUTUMN - 1), None);
        for (wall, moment) in [
            (SPRING + HOUR - 1, SPRING - 1),
            (SPRING + HOUR + HOUR / 2, SPRING), // 02:30 is in the gap
            (SPRING + 2 * HOUR, SPRING),
            (AUTUMN + HOUR + HOUR / 2, AUTUMN - HOUR / 2), // 02:30 comes twice
            (AUTUMN + 2 * HOUR, AUTUMN + HOUR),
        ] {
            assert_eq!(berlin.moment(wall), moment, "{wall}");
        }
    }

    #[test]
    fn names() {
        for name in ["", "UTC", "Europe/Berlin", "Asia/Kolkata"] {
            assert!(Zone::find(name).is_ok(), "{name}");
        }
        for name in ["europe/berlin", "Europe/Berlim", "Mars"] {
            assert!(Zone::find(name).is_err(), "{name}");
        }
    }
}
