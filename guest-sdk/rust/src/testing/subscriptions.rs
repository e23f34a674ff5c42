//! The subscriptions of the actors of a host in memory to events.

use super::chain::Chain;
use super::living::Acts;
use super::messages::{key_of, Event};
use super::{Asks, Host};
use crate::context::Key;
use crate::host::Code;
use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

/// How many actors an actor subscribes to.
const MAX_SUBSCRIPTIONS: usize = 100;

/// The waits before an event that failed is delivered again, in nanoseconds: the first, and the
/// longest.
const FIRST_WAIT: i64 = 1_000_000_000;
const LONGEST_WAIT: i64 = 300 * FIRST_WAIT;

/// A subscription of an actor; from [`Host::subscriptions`](super::Host::subscriptions).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionState {
    /// The subscriber.
    pub by: Key,
    /// The actor whose events it gets.
    pub to: Key,
    /// The method that runs for each of them.
    pub method: String,
    /// The failed deliveries of the next event.
    pub failures: u32,
}

/// A subscription of an actor.
pub(super) struct Subscription {
    pub(super) by: Key,
    to: Key,
    method: String,
    /// In which subscriptions, messages, reminders and timers were set.
    order: u64,
    /// Of all events, those before this one are delivered, older than the subscription, or of
    /// other actors.
    next: Cell<usize>,
    failures: u32,
    /// When the event is delivered again that failed last.
    retry: i64,
}

impl Subscription {
    /// The event that is delivered next, and when.
    fn next<'e>(&self, events: &'e [Event]) -> Option<(i64, &'e Event)> {
        let skipped = events.iter().skip(self.next.get());
        let others = skipped.take_while(|e| e.from != self.to).count();
        self.next.set((self.next.get() + others).min(events.len()));
        let event = events.get(self.next.get())?;
        Some((self.retry.max(unix_nanos(event.at)), event))
    }

    fn state(&self) -> SubscriptionState {
        SubscriptionState {
            by: self.by.clone(),
            to: self.to.clone(),
            method: self.method.clone(),
            failures: self.failures,
        }
    }
}

/// A time of the host's clock, which begins long after 1970.
fn unix_nanos(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The delivery of an event to a subscriber.
pub(super) struct Notice {
    /// That of the subscription.
    pub(super) order: u64,
    pub(super) event: Event,
    pub(super) published: i64,
    pub(super) attempt: u32,
}

/// What a chain does to a subscription; without a method it ends.
pub(super) struct Change {
    by: Key,
    to: Key,
    method: String,
}

impl Acts<'_> {
    pub(super) fn subscribe(&self, (of, id, method): (&str, &str, &str)) -> Result<(), Code> {
        let to = self.publisher(of, id)?;
        self.turn.check_method("subscription", method)?;
        let seen = self.subscribed();
        if !seen.contains(&to) {
            self.check_type(of, "publish no events")?;
            if seen.len() >= MAX_SUBSCRIPTIONS {
                let problem = format!("an actor subscribes to at most {MAX_SUBSCRIPTIONS} others");
                return self.refuse(Code::TOO_MANY, problem);
            }
        }
        self.change_subscription(to, method);
        Ok(())
    }

    pub(super) fn unsubscribe(&self, (of, id): (&str, &str)) -> Result<bool, Code> {
        let to = self.publisher(of, id)?;
        let known = self.subscribed().contains(&to);
        if known {
            self.change_subscription(to, "");
        }
        Ok(known)
    }

    fn publisher(&self, of: &str, id: &str) -> Result<Key, Code> {
        self.may_live()?;
        self.may_keep()?;
        if of.is_empty() || id.is_empty() {
            let problem = "a subscription needs the type and the ID of an actor";
            return self.turn.refuse(problem);
        }
        Ok(key_of(of, id))
    }

    /// The actors that the turn's actor subscribes to, as the chain sees them.
    fn subscribed(&self) -> Vec<Key> {
        let own = &self.turn.key;
        let all = self.host.0.society.subscriptions.borrow();
        let mut seen: Vec<Key> = all
            .iter()
            .filter(|s| s.by == *own)
            .map(|s| s.to.clone())
            .collect();
        let changes = self.chain.subscriptions.borrow();
        for change in changes.iter().filter(|change| change.by == *own) {
            seen.retain(|to| *to != change.to);
            if !change.method.is_empty() {
                seen.push(change.to.clone());
            }
        }
        seen
    }

    fn change_subscription(&self, to: Key, method: &str) {
        self.chain.subscriptions.borrow_mut().push(Change {
            by: self.turn.key.clone(),
            to,
            method: method.to_string(),
        });
    }
}

impl Chain {
    /// Makes what the chain has done to subscriptions hold, after the event that asked for it was
    /// consumed.
    pub(super) fn commit_subscriptions(&self, host: &Host) {
        let society = &host.0.society;
        let mut all = society.subscriptions.borrow_mut();
        if let Some(order) = self.consumes.get() {
            for s in all.iter_mut().filter(|s| s.order == order) {
                s.next.set(s.next.get() + 1);
                s.failures = 0;
                s.retry = 0;
            }
        }
        for Change { by, to, method } in self.subscriptions.take() {
            let known = all.iter().position(|s| s.by == by && s.to == to);
            match known {
                Some(at) if method.is_empty() => drop(all.remove(at)),
                Some(at) => all[at].method = method,
                None if method.is_empty() => {}
                None => all.push(Subscription {
                    by,
                    to,
                    method,
                    order: host.0.reminders.next_order(),
                    next: Cell::new(society.events.borrow().len()),
                    failures: 0,
                    retry: 0,
                }),
            }
        }
    }
}

impl Host {
    /// The subscriptions of all actors to events, in the order in which they began.
    /// [`deliver`](Host::deliver) and [`advance`](Host::advance) deliver events; all of them are
    /// kept here, so that none is [`GONE`](crate::event::GONE).
    #[must_use]
    pub fn subscriptions(&self) -> Vec<SubscriptionState> {
        let all = self.0.society.subscriptions.borrow();
        all.iter().map(Subscription::state).collect()
    }

    /// The order of the subscription whose next event is delivered first until a time, and when.
    pub(super) fn next_event(&self, until: i64) -> Option<(i64, u64)> {
        let society = &self.0.society;
        let (all, events) = (society.subscriptions.borrow(), society.events.borrow());
        let due = all
            .iter()
            .filter_map(|s| Some((s.next(&events)?.0, s.order)));
        due.filter(|(at, _)| *at <= until).min()
    }

    /// Runs the turn of a subscription's next event.
    pub(super) fn deliver_event(&self, order: u64) {
        let society = &self.0.society;
        let next = {
            let (all, events) = (society.subscriptions.borrow(), society.events.borrow());
            let s = all.iter().find(|s| s.order == order);
            s.and_then(|s| {
                let (_, event) = s.next(&events)?;
                let notice = Notice {
                    order,
                    event: event.clone(),
                    published: unix_nanos(event.at),
                    attempt: s.failures + 1,
                };
                Some((s.by.clone(), s.method.clone(), notice))
            })
        };
        let (by, method, notice) = next.expect("the subscription has an event");
        let asks = Asks::Event(&notice);
        if self.ask(&by, &method, &notice.event.payload, asks).is_ok() {
            return;
        }
        let mut all = society.subscriptions.borrow_mut();
        for s in all.iter_mut().filter(|s| s.order == order) {
            let wait = (FIRST_WAIT << s.failures.min(16)).min(LONGEST_WAIT);
            s.failures += 1;
            s.retry = self.0.now.get().saturating_add(wait);
        }
    }
}
