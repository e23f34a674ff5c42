//! The timers of a host in memory.

use super::reminders::{Reminders, TurnReminders};
use super::schedule::{check_name, Scheduled};
use crate::codec::{self, ReminderFrame};
use crate::context::Key;
use crate::convert::Payload;
use crate::host::Code;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

/// How many timers an actor has, and how many bytes they have together.
const MAX_TIMERS: usize = 100;
const MAX_BYTES: usize = 256 << 10;

/// A timer that is set; from [`Host::timers`](super::Host::timers).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimerState {
    /// Whose it is.
    pub actor: Key,
    /// Its name.
    pub name: String,
    /// What a firing runs.
    pub method: String,
    /// The input of that.
    pub input: Payload,
    /// When it fires next.
    pub due: SystemTime,
    /// Its period; zero: it fires once.
    pub every: Duration,
}

/// A timer of an actor.
pub(super) struct Timed {
    pub(super) order: u64, // in which they were set, among reminders
    pub(super) name: String,
    pub(super) method: String,
    pub(super) input: Payload,
    pub(super) due: i64,
    pub(super) every: i64,
}

impl Timed {
    fn size(&self) -> usize {
        self.name.len() + self.method.len() + self.input.content_type.len() + self.input.body.len()
    }

    pub(super) fn state(&self, key: &Key) -> TimerState {
        TimerState {
            actor: key.clone(),
            name: self.name.clone(),
            method: self.method.clone(),
            input: self.input.clone(),
            due: super::time_of(self.due),
            every: Duration::from_nanos(self.every.max(0).unsigned_abs()),
        }
    }

    /// What is left of it when it fires at `now`. The clock of a kit stands still during
    /// a turn, so that the period counts from there.
    fn next(&self, now: i64) -> Option<Rc<Timed>> {
        if self.every == 0 {
            return None;
        }
        Some(Rc::new(Timed {
            order: self.order,
            name: self.name.clone(),
            method: self.method.clone(),
            input: self.input.clone(),
            due: now.saturating_add(self.every),
            every: self.every,
        }))
    }
}

/// What a turn did to timers, by name; `None` is one that is cancelled.
pub(super) type Changes = BTreeMap<String, Option<Rc<Timed>>>;

impl Reminders {
    /// The first timer that fires until a time.
    pub(super) fn next_timer(&self, until: i64) -> Option<(Key, Rc<Timed>)> {
        let all = self.timers.borrow();
        let due = all.iter().filter(|(_, timer)| timer.due <= until);
        let first = due.min_by_key(|(_, timer)| (timer.due, timer.order))?;
        Some((first.0 .0.clone(), first.1.clone()))
    }

    /// Moves a timer on that fires.
    pub(super) fn begin_timer(&self, key: &Key, timer: &Timed, now: i64) {
        let changes = [(timer.name.clone(), timer.next(now))];
        self.commit_timers(key, &changes.into_iter().collect());
    }

    pub(super) fn commit_timers(&self, key: &Key, changes: &Changes) {
        let mut all = self.timers.borrow_mut();
        for (name, timer) in changes {
            let at = (key.clone(), name.clone());
            match timer {
                Some(timer) => all.insert(at, timer.clone()),
                None => all.remove(&at),
            };
        }
    }

    pub(super) fn lose_timers(&self, key: &Key) {
        self.timers.borrow_mut().retain(|(of, _), _| of != key);
    }
}

impl TurnReminders {
    /// The sizes of the actor's timers, as the turn sees them.
    fn seen_timers(&self) -> BTreeMap<String, usize> {
        let mut seen = BTreeMap::new();
        for ((of, name), timer) in self.all.timers.borrow().iter() {
            if *of == self.key {
                seen.insert(name.clone(), timer.size());
            }
        }
        for (name, timer) in self.timers.borrow().iter() {
            match timer {
                Some(timer) => seen.insert(name.clone(), timer.size()),
                None => seen.remove(name),
            };
        }
        seen
    }

    pub(super) fn set_timer(&self, frame: &[u8]) -> Result<bool, Code> {
        self.problem.borrow_mut().clear();
        if self.read_only {
            return Err(Code::READ_ONLY);
        }
        match codec::decode_reminder(frame) {
            Ok(frame) => self.set_decoded_timer(&frame),
            Err(e) => self.refuse(e.to_string()),
        }
    }

    fn set_decoded_timer(&self, frame: &ReminderFrame<'_>) -> Result<bool, Code> {
        self.check_method("timer", frame.method)?;
        let due = match Scheduled::new(frame, self.now) {
            Ok(scheduled) => scheduled.fire_at,
            Err(problem) => return self.refuse(problem),
        };
        let seen = self.seen_timers();
        let replaced = seen.contains_key(frame.name);
        let timer = Timed {
            order: self.all.next_order(),
            name: frame.name.to_string(),
            method: frame.method.to_string(),
            input: Payload::new(frame.content_type, frame.payload),
            due,
            every: frame.period_nano,
        };
        let others = seen.iter().filter(|(name, _)| *name != frame.name);
        let bytes = timer.size() + others.map(|(_, size)| size).sum::<usize>();
        if !replaced && seen.len() >= MAX_TIMERS {
            *self.problem.borrow_mut() =
                format!("an actor has at most {MAX_TIMERS} timers; cancel one, or use reminders");
            return Err(Code::TOO_MANY);
        }
        if bytes > MAX_BYTES {
            *self.problem.borrow_mut() = format!(
                "the timers of this actor have more than {MAX_BYTES} bytes together; keep the data in the state, and name it in the timer"
            );
            return Err(Code::TOO_LARGE);
        }
        let name = frame.name.to_string();
        self.timers.borrow_mut().insert(name, Some(Rc::new(timer)));
        Ok(replaced)
    }

    pub(super) fn cancel_timer(&self, name: &str) -> Result<bool, Code> {
        self.problem.borrow_mut().clear();
        if self.read_only {
            return Err(Code::READ_ONLY);
        }
        if let Err(problem) = check_name(name) {
            return self.refuse(problem);
        }
        let existed = self.seen_timers().contains_key(name);
        if existed {
            self.timers.borrow_mut().insert(name.to_string(), None);
        }
        Ok(existed)
    }
}
