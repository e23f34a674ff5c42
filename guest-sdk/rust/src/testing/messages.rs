//! The messages of a host in memory, and who stands for which service.

use super::children::{is_child, no_child, Families};
use super::subscriptions::Subscription;
use super::watches::Watch;
use super::{Host, APP};
use crate::codec::{self, time};
use crate::context::Key;
use crate::convert::Payload;
use crate::error::{Error, Status};
use crate::spec::MessagePolicy;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

/// What a host does with a message that a type says nothing about.
const ATTEMPTS: u64 = 25;
const INTERVAL_MS: u64 = 200;
const MAX_MS: u64 = 5 * 60 * 1000;
const AGE_MS: u64 = 3 * 24 * 3600 * 1000;

/// A message that was sent and that nobody has consumed yet; from
/// [`Host::sent`](super::Host::sent).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageState {
    /// The sender; `None`: the test itself.
    pub from: Option<Key>,
    /// Who sent it on its behalf, if somebody did.
    pub by: Option<Key>,
    /// The receiver.
    pub to: Key,
    /// What it runs.
    pub method: String,
    /// The input of that.
    pub input: Payload,
    /// When it is due: when it was sent, or later.
    pub due: SystemTime,
    /// When it is delivered: when it is due, or later after a failure.
    pub deliver_at: SystemTime,
    /// The failed deliveries.
    pub failures: u32,
    /// The sender's own number.
    pub cookie: u64,
    /// Whether it was told, and not sent.
    pub volatile: bool,
    /// The code of the last failure of one that comes back to its sender. `from` is then the
    /// actor that did not consume it.
    pub failed: String,
}

/// A message that nobody has consumed; from
/// [`Host::dead_messages`](super::Host::dead_messages).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadMessage {
    /// As it was for the last delivery.
    pub message: MessageState,
    /// Of the last delivery.
    pub error: Error,
}

/// An event that an actor has published; from [`Host::events`](super::Host::events).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The actor.
    pub from: Key,
    /// The event's name.
    pub name: String,
    /// What it has.
    pub payload: Payload,
    /// When it was published.
    pub at: SystemTime,
}

/// What no name of a guest's event begins with.
pub(super) const RESERVED_EVENTS: &str = "greenroom.";

/// The name of the last event of a life.
const PASSED_AWAY_EVENT: &str = "greenroom.passed_away";

impl Event {
    /// Whether the host has published it with the end of a life.
    pub(super) fn ends_life(&self) -> bool {
        self.name == PASSED_AWAY_EVENT
    }
}

/// A message of an inbox.
#[derive(Clone)]
pub(super) struct Letter {
    pub(super) from: Option<Key>,
    pub(super) by: Option<Key>,
    pub(super) to: Key,
    pub(super) method: String,
    pub(super) input: Payload,
    pub(super) cookie: u64,
    pub(super) volatile: bool,
    pub(super) undelivered: String,
    pub(super) forward: Option<Key>,
    pub(super) delay: i64,
    /// Not before it; 0: at once.
    pub(super) at: i64,
    /// The receivers that it was forwarded from.
    pub(super) path: Vec<Key>,
    /// Whether it comes back to its sender, and with which code.
    pub(super) returned: bool,
    pub(super) failed: String,
    /// Whether it is a notice of a watch of `from`, and `failed` why that has ended.
    pub(super) notice: bool,
    pub(super) sent: i64,
    pub(super) due: i64,
    pub(super) deliver_at: i64,
    /// In which messages, reminders and timers were set.
    pub(super) order: u64,
    pub(super) failures: u32,
}

impl Letter {
    pub(super) fn new(to: Key, method: &str, input: Payload) -> Letter {
        Letter {
            from: None,
            by: None,
            to,
            method: method.to_string(),
            input,
            cookie: 0,
            volatile: false,
            undelivered: String::new(),
            forward: None,
            delay: 0,
            at: 0,
            path: Vec::new(),
            returned: false,
            failed: String::new(),
            notice: false,
            sent: 0,
            due: 0,
            deliver_at: 0,
            order: 0,
            failures: 0,
        }
    }

    /// Whether it waits for those of its sender that came before it.
    fn ordered(&self) -> bool {
        let at_once = self.delay == 0 && self.at == 0;
        self.from.is_some() && at_once && !self.returned && self.path.is_empty()
    }

    fn state(&self) -> MessageState {
        MessageState {
            from: self.from.clone(),
            by: self.by.clone(),
            to: self.to.clone(),
            method: self.method.clone(),
            input: self.input.clone(),
            due: time(self.due),
            deliver_at: time(self.deliver_at),
            failures: self.failures,
            cookie: self.cookie,
            volatile: self.volatile,
            failed: self.failed.clone(),
        }
    }

    /// The name of the services whose watch it is a notice of.
    pub(super) fn watched_service(&self) -> Option<&str> {
        let of = self.from.as_ref().filter(|_| self.notice)?;
        Some(of.id.as_str()).filter(|_| of.actor_type.is_empty())
    }

    pub(super) fn cause(&self) -> u8 {
        if self.watched_service().is_some() {
            codec::CAUSE_SERVICES
        } else if self.notice {
            codec::CAUSE_DISCONNECTED
        } else if self.returned {
            codec::CAUSE_UNDELIVERED
        } else {
            codec::CAUSE_MESSAGE
        }
    }
}

/// What a host has of its actors beside their state and reminders.
#[derive(Default)]
pub(super) struct Society {
    /// The messages of all actors, in the order in which they were sent.
    pub(super) inbox: RefCell<Vec<Letter>>,
    dead: RefCell<Vec<DeadMessage>>,
    /// Of all actors, in the order in which they were published.
    pub(super) events: RefCell<Vec<Event>>,
    pub(super) services: RefCell<HashMap<String, Key>>,
    /// Counts actors, for their IDs.
    pub(super) spawned: Cell<usize>,
    /// Spawned actors that have passed away.
    pub(super) gone: RefCell<HashSet<Key>>,
    pub(super) watches: RefCell<Vec<Watch>>,
    pub(super) subscriptions: RefCell<Vec<Subscription>>,
    pub(super) families: Families,
}

impl Society {
    /// The order of the first message that is delivered until a time and does not wait for another
    /// method set, and when.
    pub(super) fn next(&self, until: i64, waits: impl Fn(&Letter) -> bool) -> Option<(i64, u64)> {
        let mut ahead = HashSet::new(); // pairs with a message that later ones wait for
        let inbox = self.inbox.borrow();
        let free = inbox
            .iter()
            .filter(|m| !m.ordered() || ahead.insert((m.from.clone(), m.to.clone())));
        let due = free.filter(|m| m.deliver_at <= until && !waits(m));
        due.map(|m| (m.deliver_at, m.order)).min()
    }

    /// Keeps what a chain has published.
    pub(super) fn keep(&self, events: Vec<Event>) {
        self.events.borrow_mut().extend(events);
    }

    fn take(&self, order: u64) -> Letter {
        let mut inbox = self.inbox.borrow_mut();
        let at = inbox.iter().position(|m| m.order == order);
        inbox.remove(at.expect("the message is there"))
    }

    /// Ends the watches and the subscriptions of an actor.
    fn end_ties(&self, key: &Key) {
        self.watches.borrow_mut().retain(|w| w.by != *key);
        self.subscriptions.borrow_mut().retain(|s| s.by != *key);
    }

    pub(super) fn delete(&self, key: &Key) {
        self.inbox.borrow_mut().retain(|m| m.to != *key);
        self.services.borrow_mut().retain(|_, by| by != key);
        self.end_ties(key);
    }
}

/// An actor of the app.
pub(super) fn key_of(actor_type: &str, id: &str) -> Key {
    Key {
        app: APP.to_string(),
        actor_type: actor_type.to_string(),
        id: id.to_string(),
    }
}

impl Host {
    /// The messages that nobody has consumed yet, in the order in which they were sent.
    #[must_use]
    pub fn sent(&self) -> Vec<MessageState> {
        let inbox = self.0.society.inbox.borrow();
        inbox.iter().map(Letter::state).collect()
    }

    /// The events that the turns of an actor have published, in their order.
    #[must_use]
    pub fn events(&self, actor_type: &str, id: &str) -> Vec<Event> {
        let key = key_of(actor_type, id);
        let all = self.0.society.events.borrow();
        let own = all.iter().filter(|e| e.from == key && !e.ends_life());
        own.cloned().collect()
    }

    /// The messages that nobody has consumed, oldest first.
    #[must_use]
    pub fn dead_messages(&self) -> Vec<DeadMessage> {
        self.0.society.dead.borrow().clone()
    }

    /// Delivers the messages that are due now, and the events that actors subscribe to, those that
    /// their turns send and publish included, and returns how many deliveries that were. A delivery
    /// that fails is repeated later, that of a message as the `messages` of the receiver's type
    /// say: [`advance`](Host::advance) delivers messages and events as well. What a fake stands
    /// for is delivered to the fake.
    ///
    /// # Panics
    ///
    /// A turn runs, which called a fake; a method that gets a message or an event panics;
    /// messages that are answered with messages, or events with events, come to no end.
    #[allow(clippy::must_use_candidate)] // used as a statement
    pub fn deliver(&self) -> u32 {
        self.must_be_idle();
        let mut delivered = 0;
        loop {
            let now = self.0.now.get();
            let message = self.next_message(now);
            let event = message.is_none().then(|| self.next_event(now)).flatten();
            if message.or(event).is_none() {
                return delivered;
            }
            assert!(
                delivered < super::MAX_FIRINGS,
                "{delivered} messages and events were delivered, and more are due: mend actors that answer each of them with another"
            );
            delivered += 1;
            match (message, event) {
                (Some((_, order)), _) => self.deliver_one(order),
                (_, Some((_, order))) => self.deliver_event(order),
                _ => {}
            }
        }
    }

    /// Puts a message into its receiver's inbox.
    pub(super) fn post(&self, mut letter: Letter) {
        let now = self.0.now.get();
        letter.sent = now;
        letter.due = now.saturating_add(letter.delay).max(letter.at);
        letter.deliver_at = letter.due;
        letter.order = self.0.reminders.next_order();
        self.0.society.inbox.borrow_mut().push(letter);
    }

    /// Runs the turn of a message.
    pub(super) fn deliver_one(&self, order: u64) {
        let (society, now) = (&self.0.society, self.0.now.get());
        let mut letter = society.take(order);
        let types = self.0.types.borrow();
        let entry = types.get(letter.to.actor_type.as_str());
        let policy = entry.map_or(MessagePolicy::NONE, |entry| entry.spec.messages);
        drop(types);
        let millis = |given: u64, default| {
            let millis = if given == 0 { default } else { given };
            i64::try_from(millis)
                .unwrap_or(i64::MAX)
                .saturating_mul(1_000_000)
        };
        if now - letter.due > millis(policy.age_ms, AGE_MS) {
            let text = "the message is older than it may be";
            return self.undelivered(letter, Error::deadline_exceeded("message_too_old", text));
        }
        let error = match self.consume(&letter) {
            Ok(()) => return,
            Err(error) => error,
        };
        letter.failures += 1;
        if letter.volatile {
            return self.comes_back(&letter, &error);
        }
        let attempts = super::or_default(policy.attempts, ATTEMPTS);
        if u64::from(letter.failures) >= attempts {
            return self.undelivered(letter, error);
        }
        let mut wait = millis(policy.interval_ms, INTERVAL_MS);
        let longest = millis(policy.max_ms, MAX_MS).max(wait);
        for _ in 1..letter.failures {
            wait = wait.saturating_mul(2).min(longest);
        }
        letter.deliver_at = now.saturating_add(wait);
        let mut inbox = society.inbox.borrow_mut();
        let at = inbox.partition_point(|m| m.order < order);
        inbox.insert(at, letter);
    }

    /// Has a fake or a turn of the receiver take a message.
    fn consume(&self, letter: &Letter) -> Result<(), Error> {
        let name = (letter.to.actor_type.clone(), letter.method.clone());
        let fake = self.0.fakes.borrow().get(&name).cloned();
        if let Some(fake) = fake {
            return (fake.answer)(&letter.to.id, letter.input.clone()).map(drop);
        }
        let by = super::Asks::Message(letter);
        self.ask(&letter.to, &letter.method, &letter.input, by)
            .map(drop)
    }

    /// Sends a message on that nobody has consumed, or back, and keeps it as a dead one.
    pub(super) fn undelivered(&self, letter: Letter, error: Error) {
        if let Some(to) = &letter.forward {
            if *to != letter.to && !letter.path.contains(to) {
                let mut path = letter.path.clone();
                path.push(letter.to.clone());
                return self.post(Letter {
                    to: to.clone(),
                    path,
                    delay: 0,
                    at: 0,
                    failures: 0,
                    ..letter
                });
            }
        }
        self.comes_back(&letter, &error);
        let message = letter.state();
        let mut dead = self.0.society.dead.borrow_mut();
        dead.push(DeadMessage { message, error });
    }

    /// Sends a message back to its sender, if that has asked for it.
    fn comes_back(&self, letter: &Letter, error: &Error) {
        let code = match error.code() {
            "" => "guest_error",
            code => code,
        };
        let back = letter.from.clone().map(|from| Letter {
            from: Some(letter.to.clone()),
            cookie: letter.cookie,
            volatile: letter.volatile,
            returned: true,
            failed: code.to_string(),
            ..Letter::new(from, &letter.undelivered, letter.input.clone())
        });
        let asked = !letter.undelivered.is_empty() && !letter.returned;
        if let Some(back) = back.filter(|_| asked) {
            self.post(back);
        }
    }

    /// Why a method cannot take messages.
    pub(super) fn check_receiver(&self, to: &Key, method: &str) -> Result<(), String> {
        let of = &to.actor_type;
        if of.is_empty() || to.id.is_empty() || method.is_empty() {
            return Err("a message needs a type, an ID and a method".to_string());
        }
        let types = self.0.types.borrow();
        let entry = types.get(of.as_str());
        let spec = entry.and_then(|entry| entry.spec.method(method));
        let fakes = self.0.fakes.borrow();
        let fake = fakes.get(&(of.clone(), method.to_string()));
        let read_only = match (spec, fake) {
            (Some(spec), _) => spec.read_only,
            (None, Some(fake)) => fake.read_only.get(),
            (None, None) if entry.is_some() || fakes.keys().any(|(t, _)| t == of) => {
                return Err(format!("actor type {of} has no method {method:?} here"))
            }
            (None, None) => {
                return Err(format!(
                    "there is no actor type {of:?} here; in this test, call add_type or fake"
                ))
            }
        };
        if read_only {
            return Err(format!("the method {method} of {of} is read-only; a message runs one that may change the actor"));
        }
        Ok(())
    }

    /// The set of methods that an actor accepts; empty: all.
    #[must_use]
    pub fn method_set(&self, actor_type: &str, id: &str) -> String {
        self.row(&key_of(actor_type, id)).set
    }

    /// The actor that stands for a service.
    #[must_use]
    pub fn service(&self, name: &str) -> Option<Key> {
        self.0.society.services.borrow().get(name).cloned()
    }

    /// Why there is no such actor.
    pub(super) fn next_message(&self, until: i64) -> Option<(i64, u64)> {
        let waits = |m: &Letter| {
            let entry = self.0.types.borrow().get(m.to.actor_type.as_str()).copied();
            let found = entry.and_then(|entry| Some((entry, entry.spec.method(&m.method)?)));
            let set = self.row(&m.to).set;
            found.map_or(false, |(entry, method)| {
                entry.spec.wait_outside_set
                    && !m.returned
                    && !set.is_empty()
                    && !method.sets.is_empty()
                    && !method.sets.contains(&set.as_str())
            })
        };
        self.0.society.next(until, waits)
    }

    pub(super) fn check_alive(&self, key: &Key, spawn_only: bool) -> Result<(), Error> {
        if is_child(key) && !self.row(key).spawned {
            return Err(no_child(key));
        }
        let text = if self.0.society.gone.borrow().contains(key) {
            "was spawned, and has passed away"
        } else if spawn_only && !self.row(key).spawned {
            "was not spawned, and the type's actors exist only so"
        } else {
            return Ok(());
        };
        let message = format!("{} {} {text}", key.actor_type, key.id);
        Err(Error::new(
            Status::NotFound,
            crate::life::PASSED_AWAY,
            message,
        ))
    }

    /// Ends an actor's life. `waiting` is the last message that was there when the turn
    /// began.
    pub(super) fn end_life(&self, key: &Key, waiting: u64) {
        let society = &self.0.society;
        if self.row(key).spawned {
            society.gone.borrow_mut().insert(key.clone());
        }
        self.end_family(key);
        self.0.rows.borrow_mut().remove(key);
        self.0.awake.borrow_mut().remove(key);
        self.0.reminders.remove(key);
        society.services.borrow_mut().retain(|_, by| by != key);
        society.end_ties(key);
        let has_published = society.events.borrow().iter().any(|e| e.from == *key);
        if has_published {
            society.keep(vec![Event {
                from: key.clone(),
                name: PASSED_AWAY_EVENT.to_string(),
                payload: Payload::default(),
                at: time(self.0.now.get()),
            }]);
        }
        let (ended, kept) = society
            .inbox
            .take()
            .into_iter()
            .partition(|m| m.to == *key && m.order <= waiting);
        *society.inbox.borrow_mut() = kept;
        for letter in Vec::from_iter::<Vec<Letter>>(ended) {
            let text = "the actor has passed away";
            self.undelivered(letter, Error::not_found(crate::life::PASSED_AWAY, text));
        }
    }
}
