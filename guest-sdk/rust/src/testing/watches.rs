//! The hosts that the actors of a host in memory watch.

use super::chain::Chain;
use super::living::Acts;
use super::messages::{key_of, Letter};
use super::Host;
use crate::context::Key;
use crate::convert::Payload;
use crate::host::Code;

/// How many hosts an actor watches.
const MAX_WATCHES: usize = 100;

/// An actor's watch of the host of another one; in a chain, without a method, its end.
#[derive(Clone)]
pub(super) struct Watch {
    pub(super) by: Key,
    pub(super) of: Key,
    method: String,
}

impl Watch {
    /// Takes the place of an earlier watch, or ends that; whether there was one.
    fn apply(self, to: &mut Vec<Watch>) -> bool {
        let before = to.len();
        to.retain(|w| w.by != self.by || w.of != self.of);
        let replaced = to.len() < before;
        if !self.method.is_empty() {
            to.push(self);
        }
        replaced
    }
}

impl Acts<'_> {
    pub(super) fn watch(&self, (of, id, method): (&str, &str, &str)) -> Result<bool, Code> {
        self.may_act()?;
        self.may_keep()?;
        if self.member.passed.get() {
            return Err(Code::OVER);
        }
        if of.is_empty() || id.is_empty() {
            let problem = "a watch needs the type and the ID of an actor";
            return self.turn.refuse(problem);
        }
        if !method.is_empty() {
            if let Err(problem) = self.host.check_receiver(&self.turn.key, method) {
                return self.turn.refuse(problem);
            }
        }
        let mut watches = self.host.0.society.watches.borrow().clone();
        for w in self.chain.watches.borrow().iter() {
            w.clone().apply(&mut watches);
        }
        let watch = Watch {
            by: self.turn.key.clone(),
            of: key_of(of, id),
            method: method.to_string(),
        };
        let replaced = watch.clone().apply(&mut watches);
        if watches.iter().filter(|w| w.by == watch.by).count() > MAX_WATCHES {
            let problem = format!("an actor watches at most {MAX_WATCHES} hosts");
            return self.refuse(Code::TOO_MANY, problem);
        }
        self.chain.watches.borrow_mut().push(watch);
        Ok(replaced)
    }
}

impl Chain {
    /// Makes what the chain has done to watches hold.
    pub(super) fn commit_watches(&self, host: &Host) {
        let mut watches = host.0.society.watches.borrow_mut();
        for w in self.watches.take() {
            w.apply(&mut watches);
        }
    }
}

impl Host {
    /// Ends watches, and says so to the actors that watched.
    pub(super) fn end_watches(&self, why: &str, ends: impl Fn(&Watch) -> bool) {
        let all = self.0.society.watches.take();
        let (ended, kept) = all.into_iter().partition(ends);
        *self.0.society.watches.borrow_mut() = kept;
        for w in Vec::from_iter::<Vec<Watch>>(ended) {
            self.post(Letter {
                from: Some(w.of),
                volatile: true,
                returned: true,
                notice: true,
                failed: why.to_string(),
                ..Letter::new(w.by, &w.method, Payload::default())
            });
        }
    }
}
