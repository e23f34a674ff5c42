//! The timers of a host in memory.

use crate::codec::time;
use crate::context::Key;
use crate::convert::Payload;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

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
    pub(super) fn size(&self) -> usize {
        self.name.len() + self.method.len() + self.input.content_type.len() + self.input.body.len()
    }

    pub(super) fn state(&self, key: &Key) -> TimerState {
        TimerState {
            actor: key.clone(),
            name: self.name.clone(),
            method: self.method.clone(),
            input: self.input.clone(),
            due: time(self.due),
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

/// All timers of a host.
#[derive(Default)]
pub(super) struct Timers {
    pub(super) of: RefCell<HashMap<(Key, String), Rc<Timed>>>,
}

impl Timers {
    /// The first that fires until a time.
    pub(super) fn next(&self, until: i64) -> Option<(Key, Rc<Timed>)> {
        let all = self.of.borrow();
        let due = all.iter().filter(|(_, timer)| timer.due <= until);
        let first = due.min_by_key(|(_, timer)| (timer.due, timer.order))?;
        Some((first.0 .0.clone(), first.1.clone()))
    }

    /// Moves a timer on that fires.
    pub(super) fn begin(&self, key: &Key, timer: &Timed, now: i64) {
        let changes = [(timer.name.clone(), timer.next(now))];
        self.commit(key, &changes.into_iter().collect());
    }

    pub(super) fn commit(&self, key: &Key, changes: &Changes) {
        let mut all = self.of.borrow_mut();
        for (name, timer) in changes {
            let at = (key.clone(), name.clone());
            match timer {
                Some(timer) => all.insert(at, timer.clone()),
                None => all.remove(&at),
            };
        }
    }

    pub(super) fn lose(&self, key: &Key) {
        self.of.borrow_mut().retain(|(of, _), _| of != key);
    }

    /// The sizes of an actor's timers after `changes`.
    pub(super) fn sizes(&self, key: &Key, changes: &Changes) -> BTreeMap<String, usize> {
        let mut seen = BTreeMap::new();
        for ((of, name), timer) in self.of.borrow().iter() {
            if of == key {
                seen.insert(name.clone(), timer.size());
            }
        }
        for (name, timer) in changes {
            match timer {
                Some(timer) => seen.insert(name.clone(), timer.size()),
                None => seen.remove(name),
            };
        }
        seen
    }
}
