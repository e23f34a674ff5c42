//! When reminders are due, by the rules of a host: what is refused, which times a
//! schedule names, what stands for missed ones, when a failed firing is tried again.
//! Jitter is none here. All times are nanoseconds since 1970.

use super::zone::Zone;
use crate::codec::ReminderFrame;

const SECOND: i64 = 1_000_000_000;
const MILLISECOND: i64 = 1_000_000;
/// How many occurrences are looked at for one firing.
const MAX_DUE: usize = 1_000_000;

/// A reminder that is set.
#[derive(Clone)]
pub(super) struct Scheduled {
    pub(super) name: String,
    pub(super) method: String,
    pub(super) content_type: String,
    pub(super) payload: Vec<u8>,
    pub(super) metadata: Vec<(String, String)>,
    period: i64,
    cron_text: String,
    zone: String,
    cron: Option<Cron>,
    count: u32,
    until: i64,
    jitter: i64,
    missed: u8,
    missed_limit: u32,
    missed_after: i64,
    failure: u8,
    attempts: u32,
    interval: i64,
    longest: i64,
    flags: u32,
    /// The next occurrence, and how many there are from it on; 0: no limit.
    pub(super) due: i64,
    left: u32,
    pub(super) fire_at: i64,
    pub(super) failures: u32,
}

#[derive(Clone, Copy)]
struct Occurrence {
    at: i64,
    left: u32,
}

/// One delivery of a due reminder.
pub(super) struct Firing {
    /// Otherwise what was due is passed over.
    pub(super) deliver: bool,
    pub(super) due: i64,
    pub(super) missed: u32,
    pub(super) attempt: u32,
    left: u32,
    then: Option<Occurrence>,
}

/// Says what is wrong with a reminder's name.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > 256 {
        return Err(format!("the name has {} bytes; give 1 to 256", name.len()));
    }
    if name.chars().any(char::is_control) {
        return Err("the name has a control character; remove it".to_string());
    }
    Ok(())
}

fn check(r: &ReminderFrame<'_>) -> Result<(), String> {
    check_name(r.name)?;
    let recurring = r.period_nano != 0 || !r.cron.is_empty();
    let metadata: usize = r.metadata.iter().map(|(n, v)| n.len() + v.len()).sum();
    let rules = [
        (
            r.payload.len() > 64 << 10,
            "the input has more than 65536 bytes; keep the data in the state, and name it here",
        ),
        (
            r.due_unix_nano != 0 && r.delay_nano != 0,
            "it has both a due time and a delay; give one of them",
        ),
        (r.delay_nano < 0, "the delay is below 0"),
        (
            r.period_nano != 0 && r.period_nano < MILLISECOND,
            "the period is below a millisecond; leave it out for a reminder that fires once",
        ),
        (
            r.period_nano != 0 && !r.cron.is_empty(),
            "it has both a period and a cron expression; give one of them",
        ),
        (
            !r.zone.is_empty() && r.cron.is_empty(),
            "it has a zone and no cron expression that it is for",
        ),
        (
            r.count > 1 && !recurring,
            "it is due several times, and has neither a period nor a cron expression; give one",
        ),
        (
            r.jitter_nano < 0 || r.jitter_nano > 24 * 3600 * SECOND,
            "the jitter must be between 0 and 24 h",
        ),
        (
            r.jitter_nano > 0 && r.period_nano > 0 && r.jitter_nano >= r.period_nano,
            "the jitter must be less than the period",
        ),
        (
            r.missed > 2,
            "the policy for missed occurrences is not known",
        ),
        (
            r.missed_limit > 1000 || r.missed_limit != 0 && r.missed != 2,
            "at most 1000 missed occurrences are caught up with",
        ),
        (
            r.missed_after_nano < 0 || r.missed_after_nano != 0 && r.missed != 1,
            "how late a missed occurrence may be must be 0 or more",
        ),
        (r.failure > 2, "the policy for failures is not known"),
        (r.attempts > 1000, "at most 1000 attempts are allowed"),
        (
            r.failure == 2
                && (r.attempts != 0 || r.interval_nano != 0 || r.longest_interval_nano != 0),
            "it drops a firing that fails, and has attempts or intervals; leave them out",
        ),
        (r.interval_nano < 0, "the retry interval is below 0"),
        (
            r.longest_interval_nano != 0
                && (r.failure != 1 || r.longest_interval_nano < r.interval_nano),
            "the longest retry interval is below the first one",
        ),
        (
            r.metadata.len() > 32 || metadata > 8 << 10,
            "the metadata has more than 32 entries, or 8192 bytes",
        ),
    ];
    match rules.iter().find(|(broken, _)| *broken) {
        Some((_, says)) => Err(says.to_string()),
        None => Ok(()),
    }
}

impl Scheduled {
    /// Checks a reminder that is set at `now`. The error says what to change.
    pub(super) fn new(r: &ReminderFrame<'_>, now: i64) -> Result<Scheduled, String> {
        check(r)?;
        let mut due = match (r.due_unix_nano, r.delay_nano) {
            (0, 0) => now.saturating_add(r.period_nano),
            (0, delay) => now.saturating_add(delay),
            (due, _) => due,
        };
        let mut cron = None;
        if !r.cron.is_empty() {
            let parsed = Cron::parse(r.cron, Zone::find(r.zone)?)?;
            due = parsed.next(due - 1).ok_or_else(|| {
                let text = r.cron;
                format!("the cron expression {text:?} never matches; give a day that exists")
            })?;
            cron = Some(parsed);
        }
        if r.until_unix_nano != 0 && due > r.until_unix_nano {
            return Err("the end is before the first occurrence; give a later one".to_string());
        }
        let once = r.count == 0 && r.period_nano == 0 && r.cron.is_empty();
        let metadata = r.metadata.iter();
        Ok(Scheduled {
            name: r.name.to_string(),
            method: r.method.to_string(),
            content_type: r.content_type.to_string(),
            payload: r.payload.to_vec(),
            metadata: metadata
                .map(|(n, v)| (n.to_string(), v.to_string()))
                .collect(),
            period: r.period_nano,
            cron_text: r.cron.to_string(),
            zone: r.zone.to_string(),
            cron,
            count: r.count,
            until: r.until_unix_nano,
            jitter: r.jitter_nano,
            missed: r.missed,
            missed_limit: r.missed_limit,
            missed_after: r.missed_after_nano,
            failure: r.failure,
            attempts: r.attempts,
            interval: r.interval_nano,
            longest: r.longest_interval_nano,
            flags: r.flags,
            due,
            left: if once { 1 } else { r.count },
            fire_at: due.max(now),
            failures: 0,
        })
    }

    /// What a guest is told: set again, it goes on as it would have.
    pub(super) fn frame(&self) -> ReminderFrame<'_> {
        let recurring = self.period != 0 || self.cron.is_some();
        let metadata = self.metadata.iter();
        ReminderFrame {
            name: &self.name,
            method: &self.method,
            content_type: &self.content_type,
            payload: &self.payload,
            due_unix_nano: self.due,
            period_nano: self.period,
            cron: &self.cron_text,
            zone: &self.zone,
            count: if recurring { self.left } else { self.count },
            until_unix_nano: self.until,
            missed: self.missed,
            attempts: self.attempts,
            metadata: metadata.map(|(n, v)| (n.as_str(), v.as_str())).collect(),
            delay_nano: 0,
            jitter_nano: self.jitter,
            missed_limit: self.missed_limit,
            missed_after_nano: self.missed_after,
            failure: self.failure,
            interval_nano: self.interval,
            longest_interval_nano: self.longest,
            flags: self.flags,
        }
    }

    fn after(&self, o: Occurrence) -> Option<Occurrence> {
        if o.left == 1 {
            return None;
        }
        let at = match &self.cron {
            Some(cron) => cron.next(o.at)?,
            None if self.period > 0 => o.at.checked_add(self.period)?,
            None => return None,
        };
        if self.until != 0 && at > self.until {
            return None;
        }
        let left = o.left.saturating_sub(1);
        Some(Occurrence { at, left })
    }

    /// The delivery at `now`, which is not before `fire_at`.
    pub(super) fn fire(&self, now: i64) -> Firing {
        let first = Occurrence {
            at: self.due,
            left: self.left,
        };
        let mut due = vec![first];
        let mut then = self.after(first);
        while let Some(next) = then.filter(|o| o.at <= now && due.len() < MAX_DUE) {
            due.push(next);
            then = self.after(next);
        }
        let newest = due[due.len() - 1];
        let mut firing = Firing {
            deliver: true,
            due: first.at,
            missed: due.len() as u32 - 1,
            attempt: 1,
            left: first.left,
            then,
        };
        let ended = self.until != 0 && now > self.until && now - newest.at > 60 * SECOND;
        if ended && self.failures == 0 {
            firing.deliver = false;
            firing.missed += 1;
            return firing;
        }
        match self.missed {
            1 => {
                let after = match self.missed_after {
                    0 => 60 * SECOND,
                    after => after,
                };
                let again = self.failures > 0 && due.len() == 1;
                firing.deliver = again || now - newest.at <= after;
                if firing.deliver {
                    firing.due = newest.at;
                    firing.left = newest.left;
                } else {
                    firing.missed += 1;
                }
            }
            2 => {
                let limit = match self.missed_limit {
                    0 => 100,
                    limit => limit as usize,
                };
                let from = due.len().saturating_sub(limit);
                firing.due = due[from].at;
                firing.left = due[from].left;
                firing.missed = from as u32;
                firing.then = self.after(due[from]);
            }
            _ => {}
        }
        if firing.due == self.due {
            firing.attempt = self.failures + 1;
        }
        firing
    }

    /// What is left of it after a firing.
    pub(super) fn done(&self, firing: &Firing) -> Option<Scheduled> {
        firing.then.map(|then| Scheduled {
            due: then.at,
            fire_at: then.at,
            left: then.left,
            failures: 0,
            ..self.clone()
        })
    }

    /// It with a firing that failed at `now` and is tried again; `None` if it is not.
    pub(super) fn failed(&self, firing: &Firing, now: i64) -> Option<Scheduled> {
        let attempts = if self.attempts == 0 { 3 } else { self.attempts };
        if self.drops() || firing.attempt >= attempts {
            return None;
        }
        let mut wait = match self.interval {
            0 => SECOND,
            interval => interval,
        };
        if self.failure == 1 {
            let longest = match self.longest {
                0 => wait.max(3600 * SECOND),
                longest => longest,
            };
            for _ in 1..firing.attempt {
                wait = wait.saturating_mul(2).min(longest);
            }
        }
        Some(Scheduled {
            due: firing.due,
            left: firing.left,
            fire_at: now.saturating_add(wait),
            failures: firing.attempt,
            ..self.clone()
        })
    }

    /// Whether a firing that failed leaves nothing.
    pub(super) fn drops(&self) -> bool {
        self.failure == 2
    }
}

/// A cron expression in a time zone. A set has bit n for the number n.
#[derive(Clone)]
struct Cron {
    zone: Zone,
    second: u64,
    minute: u64,
    hour: u64,
    day: u64,
    month: u64,
    weekday: u64,
    /// One of the two days is given as `*`; otherwise one of them has to match.
    any_day: bool,
}

struct Field {
    what: &'static str,
    from: u32,
    to: u32,
    names: &'static str, // three letters each, from the number `from` on
}

const FIELDS: [Field; 6] = [
    Field {
        what: "second",
        from: 0,
        to: 59,
        names: "",
    },
    Field {
        what: "minute",
        from: 0,
        to: 59,
        names: "",
    },
    Field {
        what: "hour",
        from: 0,
        to: 23,
        names: "",
    },
    Field {
        what: "day of the month",
        from: 1,
        to: 31,
        names: "",
    },
    Field {
        what: "month",
        from: 1,
        to: 12,
        names: "janfebmaraprmayjunjulaugsepoctnovdec",
    },
    Field {
        what: "day of the week",
        from: 0,
        to: 6,
        names: "sunmontuewedthufrisat",
    },
];

impl Field {
    fn parse(&self, part: &str) -> Option<u64> {
        let mut set = 0;
        for item in part.split(',') {
            let (span, step) = match item.split_once('/') {
                Some((span, step)) => (span, Some(step.parse::<u32>().ok().filter(|n| *n > 0)?)),
                None => (item, None),
            };
            let (low, high) = match span.split_once('-') {
                _ if span == "*" || span == "?" => (self.from, self.to),
                Some((low, high)) => (self.number(low)?, self.number(high)?),
                None if step.is_some() => (self.number(span)?, self.to),
                None => (self.number(span)?, self.number(span)?),
            };
            if low > high {
                return None;
            }
            let step = step.unwrap_or(1) as usize;
            for n in (low..=high).step_by(step) {
                set |= 1 << n;
            }
        }
        Some(set)
    }

    fn number(&self, text: &str) -> Option<u32> {
        let lower = text.to_ascii_lowercase();
        if let Some(at) = self
            .names
            .find(&lower)
            .filter(|at| at % 3 == 0 && lower.len() == 3)
        {
            return Some(self.from + at as u32 / 3);
        }
        let n = text.parse().ok()?;
        Some(n).filter(|n| (self.from..=self.to).contains(n))
    }
}

/// The hours of an expression that is for each of them.
const EVERY_HOUR: u64 = (1 << 24) - 1;

fn has(set: u64, n: i64) -> bool {
    set & (1 << n) != 0
}

impl Cron {
    fn parse(text: &str, zone: Zone) -> Result<Cron, String> {
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            fields => fields,
        };
        let mut parts: Vec<&str> = fields.split_whitespace().collect();
        if parts.len() == 5 {
            parts.insert(0, "0");
        }
        if parts.len() != 6 {
            return Err(format!("the cron expression {text:?} has {} fields; give minute, hour, day of the month, month and day of the week, such as 0 9 * * MON", parts.len()));
        }
        let mut sets = [0; 6];
        for ((set, field), part) in sets.iter_mut().zip(&FIELDS).zip(&parts) {
            *set = field.parse(part).ok_or_else(|| {
                let Field { what, from, to, .. } = field;
                format!("the cron expression {text:?}: the {what} is {part:?}; give {from} to {to}")
            })?;
        }
        let any = |part: &str| part == "*" || part == "?" || part == "*/1";
        let [second, minute, hour, day, month, weekday] = sets;
        Ok(Cron {
            zone,
            second,
            minute,
            hour,
            day,
            month,
            weekday,
            any_day: any(parts[3]) || any(parts[5]),
        })
    }

    /// The first match after a time. An expression for every hour names moments as they pass;
    /// the others name times on the wall. A time that the clocks skip moves to the end of the
    /// gap, and a time that they repeat comes once.
    fn next(&self, after: i64) -> Option<i64> {
        let after = after.div_euclid(SECOND);
        let next = if self.hour == EVERY_HOUR {
            self.next_moment(after)
        } else {
            self.next_on_wall(after)
        };
        next?.checked_mul(SECOND)
    }

    /// Goes through the stretches of time in which the zone has one offset.
    fn next_moment(&self, after: i64) -> Option<i64> {
        let mut from = after;
        let mut offset = self.zone.offset(from);
        let mut wall = from + offset;
        loop {
            let moment = self.match_after(wall)? - offset;
            match self.zone.change(from, moment) {
                None => return Some(moment),
                Some(change) => {
                    from = change;
                    offset = self.zone.offset(change);
                    wall = change + offset - 1; // the change itself may match
                }
            }
        }
    }

    /// Goes through the matches on the wall.
    fn next_on_wall(&self, after: i64) -> Option<i64> {
        let mut wall = after + self.zone.offset(after);
        loop {
            wall = self.match_after(wall)?;
            let moment = self.zone.moment(wall);
            if moment > after {
                return Some(moment);
            }
        }
    }

    /// The first match after a wall time, in seconds; between two 29ths of February there
    /// can be eight years.
    fn match_after(&self, wall: i64) -> Option<i64> {
        const DAY: i64 = 86_400;
        let mut t = wall + 1;
        let end = t + 9 * 366 * DAY;
        while t < end {
            let day = t.div_euclid(DAY);
            let (month, of_month) = civil(day);
            let of_day = t.rem_euclid(DAY);
            if !has(self.month, month) || !self.matches_day(day, of_month) {
                t = (day + 1) * DAY;
            } else if !has(self.hour, of_day / 3600) {
                t += 3600 - of_day % 3600;
            } else if !has(self.minute, of_day / 60 % 60) {
                t += 60 - of_day % 60;
            } else if !has(self.second, of_day % 60) {
                t += 1;
            } else {
                return Some(t);
            }
        }
        None
    }

    fn matches_day(&self, day: i64, of_month: i64) -> bool {
        let of_week = (day + 4).rem_euclid(7); // 1970 began on a Thursday
        let (month, week) = (has(self.day, of_month), has(self.weekday, of_week));
        if self.any_day {
            month && week
        } else {
            month || week
        }
    }
}

/// Month and day of the month of a day since 1970, in the Gregorian calendar: years are
/// taken to begin in March, so that the leap day is the last.
fn civil(day: i64) -> (i64, i64) {
    let day = day + 719_468; // since 0000-03-01
    let of_era = day.rem_euclid(146_097); // of 400 years
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (month, of_month)
}

#[cfg(test)]
mod tests {
    use super::{civil, Cron, Scheduled, Zone, SECOND};
    use crate::codec::ReminderFrame;

    #[test]
    fn nothing_is_delivered_long_after_the_end() {
        let frame = ReminderFrame {
            name: "r",
            period_nano: SECOND,
            until_unix_nano: 2 * SECOND,
            ..ReminderFrame::default()
        };
        let set = Scheduled::new(&frame, 0).unwrap();
        for (now, deliver, missed) in [(62, true, 1), (63, false, 2)] {
            let firing = set.fire(now * SECOND);
            assert_eq!((firing.deliver, firing.missed), (deliver, missed), "{now}");
            assert!(firing.then.is_none(), "{now}");
        }
    }

    #[test]
    fn days_of_the_calendar() {
        for (day, want) in [
            (0, (1, 1)),
            (58, (2, 28)),
            (59, (3, 1)),
            (789, (2, 29)), // 1972
            (790, (3, 1)),
            (11_016, (2, 29)), // 2000
            (-1, (12, 31)),
            (20_089, (1, 1)), // 2025
        ] {
            assert_eq!(civil(day), want, "{day}");
        }
    }

    #[test]
    fn expressions() {
        const NOON: i64 = 1_735_732_800; // Wednesday, 2025-01-01
        const HOUR: i64 = 3600;
        const DAY: i64 = 24 * HOUR;
        for (text, want) in [
            ("0 13 * * *", NOON + HOUR),
            ("0 12 * * *", NOON + DAY),
            ("30 0 12 * * *", NOON + 30),
            ("0 0 * * MON", NOON - 12 * HOUR + 5 * DAY),
            ("0 0 13 * FRI", NOON - 12 * HOUR + 2 * DAY), // either day
            ("@monthly", NOON - 12 * HOUR + 31 * DAY),
            ("*/15 8-9 * * mon-fri", NOON + 20 * HOUR),
            ("0 0 29 2 *", 1_835_395_200), // 2028
        ] {
            let next = Cron::parse(text, Zone::Utc).unwrap().next(NOON * SECOND);
            assert_eq!(next, Some(want * SECOND), "{text}");
        }
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "* * 0 * *",
            "5-2 * * * *",
            "*/0 * * * *",
            "@every 1s",
        ] {
            assert!(Cron::parse(text, Zone::Utc).is_err(), "{text}");
        }
        assert_eq!(Cron::parse("0 0 30 2 *", Zone::Utc).unwrap().next(0), None);
    }

    #[cfg(feature = "zones")]
    #[test]
    fn expressions_across_changes_of_the_clocks() {
        const HOUR: i64 = 3600;
        const SPRING: i64 = 1_774_746_000; // 2026-03-29 01:00 UTC: in Berlin 2 becomes 3
        const AUTUMN: i64 = 1_792_890_000; // 2026-10-25 01:00 UTC: in Berlin 3 becomes 2
        for (zone, text, from, want) in [
            // Nine in the morning stays at nine.
            (
                "Europe/Berlin",
                "0 9 * * *",
                SPRING - 24 * HOUR,
                [SPRING - 17 * HOUR, SPRING + 6 * HOUR],
            ),
            // Half past two does not exist on that day: the end of the gap.
            (
                "Europe/Berlin",
                "30 2 * * *",
                SPRING - 12 * HOUR,
                [SPRING, SPRING + 23 * HOUR + HOUR / 2],
            ),
            // It comes once where the wall shows it twice.
            (
                "Europe/Berlin",
                "30 2 * * *",
                AUTUMN - 12 * HOUR,
                [AUTUMN - HOUR / 2, AUTUMN + 24 * HOUR + HOUR / 2],
            ),
            // What is for every hour comes at each that passes.
            (
                "Europe/Berlin",
                "30 * * * *",
                AUTUMN - HOUR,
                [AUTUMN - HOUR / 2, AUTUMN + HOUR / 2],
            ),
            (
                "Europe/Berlin",
                "0 * * * *",
                SPRING - HOUR,
                [SPRING, SPRING + HOUR],
            ),
            // A midnight that does not exist, and a day.
            (
                "America/Sao_Paulo",
                "0 0 * * *",
                1_541_246_400,
                [1_541_300_400, 1_541_383_200],
            ),
            (
                "Pacific/Apia",
                "0 12 * * *",
                1_325_196_000,
                [1_325_239_200, 1_325_282_400],
            ),
        ] {
            let cron = Cron::parse(text, Zone::find(zone).unwrap()).unwrap();
            let mut at = from * SECOND;
            for want in want {
                at = cron.next(at).unwrap();
                assert_eq!(at, want * SECOND, "{text} in {zone} from {from}");
            }
        }
    }
}
