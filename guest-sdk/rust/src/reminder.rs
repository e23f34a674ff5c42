//! Calls of an actor's own methods at a later time: `abi/SPEC.md` section 5.

use crate::codec::{self, time, ReminderFrame};
use crate::context::{direct, Context, ReadContext};
use crate::convert::{Payload, ToJson};
use crate::error::{Error, Status};
use crate::host::Code;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A durable call of a method of the actor itself, at a later time or many of them. Its
/// firing is a turn like another, which runs exactly once in effect; see
/// [`ReadContext::cause`].
///
/// ```
/// use greenroom::Reminder;
/// use std::time::Duration;
///
/// let bill = Reminder::new("bill", "Bill")
///     .cron("0 9 1 * *")
///     .zone("Europe/Berlin")
///     .attempts(5)
///     .backoff(Duration::from_secs(60), Duration::from_secs(3600));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Reminder {
    /// 1 to 256 bytes without control characters. One reminder of an actor has it:
    /// setting it again replaces what there was.
    pub name: String,
    /// What a firing runs. It must not be read-only.
    pub method: String,
    /// The method's input, at most 65536 bytes.
    pub input: Payload,
    /// When it is first due; one that is past is due at once. `None`: see `after`.
    pub at: Option<SystemTime>,
    /// When it is first due, from now. Zero: at once, or after one period, or when the
    /// cron expression first matches.
    pub after: Duration,
    /// The period, at least a millisecond; zero: it fires once.
    pub every: Duration,
    /// Minute, hour, day of the month, month and day of the week, or six fields with
    /// seconds in front, or one of `@hourly`, `@daily`, `@weekly`, `@monthly` and
    /// `@yearly`.
    pub cron: String,
    /// The IANA name of the time zone in which `cron` is read; empty: UTC.
    pub zone: String,
    /// How often it is due at most; 0: no limit.
    pub times: u32,
    /// After which time it is not due any more.
    pub until: Option<SystemTime>,
    /// Each firing is delayed by up to so much, so that many do not come at once.
    pub jitter: Duration,
    /// How occurrences that it missed are delivered.
    pub missed: Missed,
    /// How a firing whose turn failed is repeated.
    pub retry: Retry,
    /// Comes with each firing: at most 32 entries, and 8192 bytes.
    pub metadata: BTreeMap<String, String>,
    /// A reminder of that name stays as it is, if there is one.
    pub keep: bool,
    /// Why the input is none.
    unfit: Option<String>,
}

/// How a reminder delivers occurrences that it missed, since no server ran or an earlier
/// firing took long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missed {
    /// It fires once for all of them.
    #[default]
    Collapse,
    /// They are passed over, the newest excepted if it is not later than this; zero: a
    /// minute.
    Skip(Duration),
    /// It fires for each, in order: the newest ones, at most so many; 0: 100.
    CatchUp(u32),
}

/// How a firing whose turn failed is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// How often one firing is tried, the first time included. After the last it is kept
    /// as a dead letter, for people to look at. 0: 3.
    pub attempts: u32,
    /// How long after a failure it is tried again; zero: a second.
    pub interval: Duration,
    /// Makes the interval twice as long after each failure, up to so much. Zero: it stays
    /// the same.
    pub longest: Duration,
    /// It is tried once and leaves no dead letter.
    pub drop: bool,
}

impl Reminder {
    /// A reminder that is due at once, and once: the others change that.
    #[must_use]
    pub fn new(name: impl Into<String>, method: impl Into<String>) -> Reminder {
        Reminder {
            name: name.into(),
            method: method.into(),
            ..Reminder::default()
        }
    }

    /// A reminder that is due once, after `delay`.
    #[must_use]
    pub fn once(name: impl Into<String>, method: impl Into<String>, delay: Duration) -> Reminder {
        Reminder::new(name, method).after(delay)
    }

    /// Sets the method's input.
    #[must_use]
    pub fn input<T: ToJson + ?Sized>(mut self, input: &T) -> Reminder {
        match input.to_json() {
            Ok(body) => self.input = Payload::new("", body),
            Err(e) => self.unfit = Some(e.message().to_string()),
        }
        self
    }

    /// Sets the method's input, for one that does not speak JSON.
    #[must_use]
    pub fn payload(mut self, payload: Payload) -> Reminder {
        self.input = payload;
        self
    }

    /// Sets when it is first due.
    #[must_use]
    pub fn at(mut self, at: SystemTime) -> Reminder {
        self.at = Some(at);
        self
    }

    /// Sets when it is first due, from now.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Reminder {
        self.after = delay;
        self
    }

    /// Sets the period.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Reminder {
        self.every = period;
        self
    }

    /// Sets the cron expression.
    #[must_use]
    pub fn cron(mut self, expression: impl Into<String>) -> Reminder {
        self.cron = expression.into();
        self
    }

    /// Sets the time zone of the cron expression.
    #[must_use]
    pub fn zone(mut self, name: impl Into<String>) -> Reminder {
        self.zone = name.into();
        self
    }

    /// Sets how often it is due at most.
    #[must_use]
    pub fn times(mut self, times: u32) -> Reminder {
        self.times = times;
        self
    }

    /// Sets after which time it is not due any more.
    #[must_use]
    pub fn until(mut self, end: SystemTime) -> Reminder {
        self.until = Some(end);
        self
    }

    /// Sets by up to how much a firing is delayed.
    #[must_use]
    pub fn jitter(mut self, jitter: Duration) -> Reminder {
        self.jitter = jitter;
        self
    }

    /// Sets how missed occurrences are delivered.
    #[must_use]
    pub fn missed(mut self, missed: Missed) -> Reminder {
        self.missed = missed;
        self
    }

    /// Sets how often one firing is tried.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Reminder {
        self.retry.attempts = attempts;
        self
    }

    /// Sets how long after a failure it is tried again, each time.
    #[must_use]
    pub fn retry_after(mut self, interval: Duration) -> Reminder {
        self.retry.interval = interval;
        self.retry.longest = Duration::ZERO;
        self
    }

    /// Sets how long after the first failure it is tried again; after each further one
    /// twice as long, up to `longest`.
    #[must_use]
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Reminder {
        self.retry.interval = first;
        self.retry.longest = longest;
        self
    }

    /// A firing that fails is not tried again, and leaves no dead letter.
    #[must_use]
    pub fn drop_failed(mut self) -> Reminder {
        self.retry = Retry {
            drop: true,
            ..Retry::default()
        };
        self
    }

    /// Adds an entry of metadata.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Reminder {
        self.metadata.insert(name.into(), value.into());
        self
    }

    /// Leaves a reminder of that name as it is, if there is one.
    #[must_use]
    pub fn keep(mut self) -> Reminder {
        self.keep = true;
        self
    }

    fn frame(&self) -> Result<ReminderFrame<'_>, String> {
        let (missed, missed_limit, missed_after) = match self.missed {
            Missed::Collapse => (0, 0, Duration::ZERO),
            Missed::Skip(after) => (1, 0, after),
            Missed::CatchUp(limit) => (2, limit, Duration::ZERO),
        };
        let failure = match self.retry {
            Retry { drop: true, .. } => 2,
            Retry { longest, .. } if !longest.is_zero() => 1,
            _ => 0,
        };
        let metadata = self.metadata.iter();
        Ok(ReminderFrame {
            name: &self.name,
            method: &self.method,
            content_type: &self.input.content_type,
            payload: &self.input.body,
            due_unix_nano: unix_nanos("at", self.at)?,
            period_nano: nanos("period", self.every)?,
            cron: &self.cron,
            zone: &self.zone,
            count: self.times,
            until_unix_nano: unix_nanos("until", self.until)?,
            missed,
            attempts: self.retry.attempts,
            metadata: metadata.map(|(n, v)| (n.as_str(), v.as_str())).collect(),
            delay_nano: nanos("delay", self.after)?,
            jitter_nano: nanos("jitter", self.jitter)?,
            missed_limit,
            missed_after_nano: nanos("missed", missed_after)?,
            failure,
            interval_nano: nanos("retry interval", self.retry.interval)?,
            longest_interval_nano: nanos("longest retry interval", self.retry.longest)?,
            flags: if self.keep { codec::FLAG_KEEP } else { 0 },
        })
    }

    fn from_frame(frame: &ReminderFrame<'_>) -> Reminder {
        let metadata = frame.metadata.iter();
        let longest = match (frame.failure, frame.longest_interval_nano) {
            (1, 0) => Duration::from_secs(3600),
            (_, nanos) => duration(nanos),
        };
        Reminder {
            name: frame.name.to_string(),
            method: frame.method.to_string(),
            input: Payload::new(frame.content_type, frame.payload),
            at: Some(time(frame.due_unix_nano)),
            after: Duration::ZERO,
            every: duration(frame.period_nano),
            cron: frame.cron.to_string(),
            zone: frame.zone.to_string(),
            times: frame.count,
            until: Some(frame.until_unix_nano).filter(|n| *n != 0).map(time),
            jitter: duration(frame.jitter_nano),
            missed: match frame.missed {
                1 => Missed::Skip(duration(frame.missed_after_nano)),
                2 => Missed::CatchUp(frame.missed_limit),
                _ => Missed::Collapse,
            },
            retry: Retry {
                attempts: frame.attempts,
                interval: duration(frame.interval_nano),
                longest,
                drop: frame.failure == 2,
            },
            metadata: metadata
                .map(|(n, v)| (n.to_string(), v.to_string()))
                .collect(),
            keep: frame.flags & codec::FLAG_KEEP != 0,
            unfit: None,
        }
    }
}

pub(crate) fn nanos(what: &str, d: Duration) -> Result<i64, String> {
    i64::try_from(d.as_nanos()).map_err(|_| {
        format!(
            "the {what} is {} seconds; give less than 292 years",
            d.as_secs()
        )
    })
}

/// What is before 1970 is due at once.
pub(crate) fn unix_nanos(what: &str, time: Option<SystemTime>) -> Result<i64, String> {
    match time.map(|t| t.duration_since(UNIX_EPOCH)) {
        None => Ok(0),
        Some(Err(_)) => Ok(1),
        Some(Ok(since)) => i64::try_from(since.as_nanos())
            .map(|n| n.max(1))
            .map_err(|_| format!("`{what}` is after the year 2262; give a time before")),
    }
}

fn duration(nanos: i64) -> Duration {
    Duration::from_nanos(nanos.max(0).unsigned_abs())
}

/// Names what is done to a reminder, a timer and so on, or how a name begins that is too long.
pub(crate) fn doing(op: &str, what: &str, name: &str) -> String {
    match codec::cut(name, 64) {
        all if all.len() == name.len() => format!("{op} {what} {name:?}"),
        head => format!("{op} {what} \"{head}…\""),
    }
}

/// Why the last function with a problem was refused.
pub(crate) fn problem(ctx: &ReadContext) -> String {
    direct!(ctx, problem())
}

/// Reads the actor's reminders; from [`ReadContext::reminders`].
#[derive(Clone, Copy, Debug)]
pub struct ReminderReader<'c> {
    ctx: &'c ReadContext,
}

/// Reads and changes the actor's reminders; from [`Context::reminders`].
///
/// Changes are part of the turn, like those of the state: when it fails, there were
/// none.
#[derive(Clone, Copy, Debug)]
pub struct ReminderWriter<'c> {
    reader: ReminderReader<'c>,
}

impl<'c> Deref for ReminderWriter<'c> {
    type Target = ReminderReader<'c>;

    fn deref(&self) -> &ReminderReader<'c> {
        &self.reader
    }
}

impl ReadContext {
    /// The actor's reminders, to read.
    #[must_use]
    pub fn reminders(&self) -> ReminderReader<'_> {
        ReminderReader { ctx: self }
    }
}

impl Context {
    /// The actor's reminders, to read and change.
    ///
    /// ```
    /// # use greenroom::prelude::*;
    /// # use greenroom::Reminder;
    /// # use std::time::Duration;
    /// # struct Cart;
    /// # impl Cart {
    /// fn open(&mut self, ctx: &Context) -> Result<(), Error> {
    ///     ctx.reminders().set(Reminder::once("expire", "Expire", Duration::from_secs(3600)))
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn reminders(&self) -> ReminderWriter<'_> {
        ReminderWriter {
            reader: ReminderReader { ctx: self },
        }
    }
}

impl ReminderReader<'_> {
    /// A reminder, with what the turn itself has done to it; `None` if there is none.
    /// `at` is when it is due next and `times` how often it still is: set again, it goes
    /// on as it would have.
    ///
    /// # Errors
    ///
    /// `invalid_reminder`: the name is none; `not_ready`: the host cannot say now.
    pub fn get(&self, name: &str) -> Result<Option<Reminder>, Error> {
        let bytes = match direct!(self.ctx, reminder_get(name)) {
            Ok(bytes) => bytes,
            Err(Code::NOT_FOUND) => return Ok(None),
            Err(code) => return Err(self.refused(code, "get", name)),
        };
        match codec::decode_reminder(&bytes) {
            Ok(frame) => Ok(Some(Reminder::from_frame(&frame))),
            Err(e) => Err(Error::new(Status::Internal, "bad_frame", e.to_string())),
        }
    }

    /// The names of the actor's reminders that begin with `prefix`, in ascending byte
    /// order, with what the turn itself has done to them: at most 1000, the first ones.
    ///
    /// # Errors
    ///
    /// `not_ready`: the host cannot say now.
    pub fn names(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let list = direct!(self.ctx, reminder_names(prefix))
            .map_err(|code| self.refused(code, "list", prefix))?;
        match codec::decode_key_list(&list) {
            Ok(names) => Ok(names.into_iter().map(str::to_string).collect()),
            Err(e) => Err(Error::new(Status::Internal, "bad_frame", e.to_string())),
        }
    }

    #[cold]
    fn refused(&self, code: Code, doing: &str, name: &str) -> Error {
        let doing = self::doing(doing, "reminder", name);
        let (status, name) = match code {
            Code::INVALID => (Status::InvalidArgument, "invalid_reminder"),
            Code::TOO_MANY => (Status::ResourceExhausted, "too_many"),
            Code::NOT_READY => {
                let message = match problem(self.ctx) {
                    none if none.is_empty() => format!("{doing}: the host cannot say now"),
                    problem => format!("{doing}: {problem}"),
                };
                return Error::new(Status::Unavailable, "not_ready", message).retryable();
            }
            code => return code.error(&doing),
        };
        let problem = problem(self.ctx);
        Error::new(status, name, format!("{doing}: {problem}"))
    }
}

impl ReminderWriter<'_> {
    /// Sets a reminder, in the place of one of the same name.
    ///
    /// # Errors
    ///
    /// `invalid_reminder`: it cannot be, and the message says what to change;
    /// `too_many`: the turn has set and cancelled as many as it may; `no_state`: the type
    /// is stateless.
    pub fn set(&self, reminder: Reminder) -> Result<(), Error> {
        let name = &reminder.name;
        if let Some(why) = &reminder.unfit {
            let message = format!("set reminder {name:?}: the input has no JSON form: {why}");
            return Err(Error::new(Status::Internal, "not_json", message));
        }
        let frame = reminder.frame().map_err(|problem| {
            let message = format!("set reminder {name:?}: {problem}");
            Error::new(Status::InvalidArgument, "invalid_reminder", message)
        })?;
        direct!(self.ctx, reminder_set(&codec::encode_reminder(&frame)))
            .map_err(|code| self.refused(code, "set", name))
    }

    /// Removes a reminder. One that is not there is no error.
    ///
    /// # Errors
    ///
    /// As those of [`set`](ReminderWriter::set).
    pub fn cancel(&self, name: &str) -> Result<(), Error> {
        direct!(self.ctx, reminder_cancel(name)).map_err(|code| self.refused(code, "cancel", name))
    }
}
