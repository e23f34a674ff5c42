//! The reminders of a host in memory, and reminders and timers as a turn sees them.

use super::children::is_child;
use super::schedule::{check_name, Firing, Scheduled};
use super::timers::{self, Timed, Timers};
use crate::codec::{self, ReminderFrame};
use crate::context::Key;
use crate::convert::Payload;
use crate::error::Error;
use crate::host::Code;
use crate::spec::TypeSpec;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::SystemTime;

/// How often a turn may set and cancel reminders.
const MAX_CHANGES: u32 = 256;
/// How many names a turn gets at once.
const MAX_NAMES: usize = 1000;
/// How many timers an actor has, and how many bytes they have together.
const MAX_TIMERS: usize = 100;
const MAX_TIMER_BYTES: usize = 256 << 10;

/// A reminder that is set; from [`Host::reminders`](super::Host::reminders).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReminderState {
    /// Whose it is.
    pub actor: Key,
    /// Its name.
    pub name: String,
    /// What a firing runs.
    pub method: String,
    /// The input of that.
    pub input: Payload,
    /// When it is due next.
    pub due: SystemTime,
    /// When it fires: when it is due, or later after a failure.
    pub fire_at: SystemTime,
    /// The failed tries of this firing.
    pub failures: u32,
}

/// A firing that failed as often as it may; from
/// [`Host::dead_letters`](super::Host::dead_letters).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// As it was for the last try.
    pub reminder: ReminderState,
    /// Of the last try.
    pub error: Error,
}

/// A reminder of an actor; the number says in which order they were set.
pub(super) type Set = Rc<(u64, Scheduled)>;

/// All reminders and timers of a host.
#[derive(Default)]
pub(super) struct Reminders {
    pub(super) of: RefCell<HashMap<(Key, String), Set>>,
    pub(super) dead: RefCell<Vec<DeadLetter>>,
    pub(super) timers: Timers,
    order: Cell<u64>,
}

/// A reminder that fires.
pub(super) struct Fired {
    pub(super) set: Set,
    pub(super) firing: Firing,
}

impl Fired {
    /// What is left of it when the turn commits.
    pub(super) fn then(&self) -> Option<Set> {
        let (order, scheduled) = &*self.set;
        let then = scheduled.done(&self.firing)?;
        Some(Rc::new((*order, then)))
    }
}

/// What a turn did to reminders, by name; `None` is one that is gone.
pub(super) type Changes = BTreeMap<String, Option<Set>>;

impl Reminders {
    /// The first that fires until a time.
    pub(super) fn next(&self, until: i64) -> Option<(Key, Set)> {
        let all = self.of.borrow();
        let due = all.iter().filter(|(_, set)| set.1.fire_at <= until);
        let first = due.min_by_key(|(_, set)| (set.1.fire_at, set.0))?;
        Some((first.0 .0.clone(), first.1.clone()))
    }

    pub(super) fn commit(&self, key: &Key, changes: &Changes) {
        let mut all = self.of.borrow_mut();
        for (name, set) in changes {
            let at = (key.clone(), name.clone());
            match set {
                Some(set) => all.insert(at, set.clone()),
                None => all.remove(&at),
            };
        }
    }

    pub(super) fn remove(&self, key: &Key) {
        self.of.borrow_mut().retain(|(of, _), _| of != key);
        self.timers.lose(key);
    }

    pub(super) fn next_order(&self) -> u64 {
        self.order.set(self.order.get() + 1);
        self.order.get()
    }
}

/// The reminders and timers as a turn sees them.
pub(super) struct TurnReminders {
    pub(super) all: Rc<Reminders>,
    pub(super) key: Key,
    pub(super) spec: TypeSpec,
    pub(super) now: i64,
    pub(super) may_write: Result<(), Code>,
    pub(super) stateless: bool,
    pub(super) read_only: bool,
    pub(super) changes: Rc<RefCell<Changes>>,
    pub(super) timers: Rc<RefCell<timers::Changes>>,
    pub(super) operated: Cell<u32>,
    pub(super) problem: RefCell<String>,
    /// Whether the turn has ended its actor's life.
    pub(super) passed: Rc<Cell<bool>>,
    /// How many messages it has sent, and their bytes.
    pub(super) sent: Cell<(usize, usize)>,
}

impl TurnReminders {
    fn check_alive(&self) -> Result<(), Code> {
        if self.passed.get() {
            return Err(Code::OVER);
        }
        self.may_keep()
    }

    /// For what is stored beside a state.
    pub(super) fn may_keep(&self) -> Result<(), Code> {
        if is_child(&self.key) {
            *self.problem.borrow_mut() =
                "a volatile child has nothing in the store; have its parent do it".to_string();
            return Err(Code::NO_STATE);
        }
        Ok(())
    }

    fn visible(&self, name: &str) -> Option<Set> {
        if let Some(changed) = self.changes.borrow().get(name) {
            return changed.clone();
        }
        let at = (self.key.clone(), name.to_string());
        self.all.of.borrow().get(&at).cloned()
    }

    pub(super) fn refuse<T>(&self, problem: impl Into<String>) -> Result<T, Code> {
        *self.problem.borrow_mut() = problem.into();
        Err(Code::INVALID)
    }

    fn change(&self, name: &str, set: Option<Set>) -> Result<(), Code> {
        if self.operated.get() == MAX_CHANGES {
            let problem = format!("a turn sets and cancels reminders at most {MAX_CHANGES} times");
            *self.problem.borrow_mut() = problem;
            return Err(Code::TOO_MANY);
        }
        self.operated.set(self.operated.get() + 1);
        self.changes.borrow_mut().insert(name.to_string(), set);
        Ok(())
    }

    pub(super) fn set(&self, frame: &[u8]) -> Result<(), Code> {
        self.problem.borrow_mut().clear();
        self.may_write?;
        self.check_alive()?;
        match codec::decode_reminder(frame) {
            Ok(frame) => self.set_decoded(&frame),
            Err(e) => self.refuse(e.to_string()),
        }
    }

    /// Refuses a method that a reminder or timer cannot run.
    pub(super) fn check_method(&self, of: &str, method: &str) -> Result<(), Code> {
        match self.spec.method(method) {
            None => {
                let name = self.spec.name;
                self.refuse(format!("the type {name} has no method {method:?}"))
            }
            Some(spec) if spec.read_only => self.refuse(format!(
                "the method {method} is read-only; a {of} runs one that may change the actor"
            )),
            Some(_) => Ok(()),
        }
    }

    fn set_decoded(&self, frame: &ReminderFrame<'_>) -> Result<(), Code> {
        self.check_method("reminder", frame.method)?;
        let scheduled = match Scheduled::new(frame, self.now) {
            Ok(scheduled) => scheduled,
            Err(problem) => return self.refuse(problem),
        };
        if frame.flags & codec::FLAG_KEEP != 0 && self.visible(frame.name).is_some() {
            return Ok(());
        }
        let set = Rc::new((self.all.next_order(), scheduled));
        self.change(frame.name, Some(set))
    }

    pub(super) fn cancel(&self, name: &str) -> Result<(), Code> {
        self.problem.borrow_mut().clear();
        self.may_write?;
        self.check_alive()?;
        match check_name(name) {
            Ok(()) => self.change(name, None),
            Err(problem) => self.refuse(problem),
        }
    }

    pub(super) fn get(&self, name: &str) -> Result<Vec<u8>, Code> {
        self.problem.borrow_mut().clear();
        if self.stateless {
            return Err(Code::NO_STATE);
        }
        self.may_keep()?;
        if let Err(problem) = check_name(name) {
            return self.refuse(problem);
        }
        let set = self.visible(name).ok_or(Code::NOT_FOUND)?;
        Ok(codec::encode_reminder(&set.1.frame()))
    }

    pub(super) fn names(&self, prefix: &str) -> Result<Vec<u8>, Code> {
        self.problem.borrow_mut().clear();
        if self.stateless {
            return Err(Code::NO_STATE);
        }
        self.may_keep()?;
        let mut names: BTreeMap<String, bool> = BTreeMap::new();
        for (of, name) in self.all.of.borrow().keys() {
            if *of == self.key {
                names.insert(name.clone(), true);
            }
        }
        for (name, set) in self.changes.borrow().iter() {
            names.insert(name.clone(), set.is_some());
        }
        let there = names
            .iter()
            .filter(|(n, there)| **there && n.starts_with(prefix));
        Ok(codec::encode_key_list(
            there.map(|(n, _)| n.as_str()).take(MAX_NAMES),
        ))
    }

    fn timer_sizes(&self) -> BTreeMap<String, usize> {
        self.all.timers.sizes(&self.key, &self.timers.borrow())
    }

    pub(super) fn set_timer(&self, frame: &[u8]) -> Result<bool, Code> {
        self.problem.borrow_mut().clear();
        if self.read_only {
            return Err(Code::READ_ONLY);
        }
        self.check_alive()?;
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
        let seen = self.timer_sizes();
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
        if bytes > MAX_TIMER_BYTES {
            *self.problem.borrow_mut() = format!(
                "the timers of this actor have more than {MAX_TIMER_BYTES} bytes together; keep the data in the state, and name it in the timer"
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
        self.check_alive()?;
        if let Err(problem) = check_name(name) {
            return self.refuse(problem);
        }
        let existed = self.timer_sizes().contains_key(name);
        if existed {
            self.timers.borrow_mut().insert(name.to_string(), None);
        }
        Ok(existed)
    }
}
