//! The hosts and the services that the actors of a host in memory watch.

use super::chain::Chain;
use super::living::Acts;
use super::messages::{key_of, Letter};
use super::Host;
use crate::context::Key;
use crate::convert::{Payload, ToJson};
use crate::host::Code;
use crate::watch::{NamedActor, Services};

/// How many hosts and services an actor watches.
const MAX_WATCHES: usize = 100;

/// How many services a list has.
const MAX_LISTED: usize = 256;

/// An actor's watch of the host of another one, or of services, whose key has no type; in a chain,
/// without a method, its end.
#[derive(Clone)]
pub(super) struct Watch {
    pub(super) by: Key,
    pub(super) of: Key,
    method: String,
    /// The last list of services.
    told: Option<Vec<u8>>,
}

impl Watch {
    /// Takes the place of an earlier watch, or ends that; whether there was one.
    fn apply(mut self, to: &mut Vec<Watch>) -> bool {
        let at = to.iter().position(|w| w.by == self.by && w.of == self.of);
        let replaced = at.map(|at| to.remove(at));
        let was = replaced.is_some();
        if !self.method.is_empty() {
            self.told = replaced.and_then(|w| w.told);
            to.push(self);
        }
        was
    }

    /// The notice that it has ended, or goes on.
    fn notice(&self, failed: &str, input: Payload) -> Letter {
        Letter {
            from: Some(self.of.clone()),
            volatile: true,
            returned: true,
            notice: true,
            failed: failed.to_string(),
            ..Letter::new(self.by.clone(), &self.method, input)
        }
    }
}

impl Acts<'_> {
    pub(super) fn watch(&self, (of, id, method): (&str, &str, &str)) -> Result<bool, Code> {
        self.may_watch()?;
        if of.is_empty() || id.is_empty() {
            let problem = "a watch needs the type and the ID of an actor";
            return self.turn.refuse(problem);
        }
        self.begin(key_of(of, id), method)
    }

    pub(super) fn watch_service(&self, (name, method): (&str, &str)) -> Result<bool, Code> {
        self.may_watch()?;
        self.check_service(name)?;
        self.begin(key_of("", name), method)
    }

    fn may_watch(&self) -> Result<(), Code> {
        self.may_act()?;
        self.may_keep()?;
        if self.member.passed.get() {
            return Err(Code::OVER);
        }
        Ok(())
    }

    fn begin(&self, of: Key, method: &str) -> Result<bool, Code> {
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
            of,
            method: method.to_string(),
            told: None,
        };
        let replaced = watch.clone().apply(&mut watches);
        if watches.iter().filter(|w| w.by == watch.by).count() > MAX_WATCHES {
            let problem = format!("an actor watches at most {MAX_WATCHES} hosts and services");
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
            if w.of.actor_type.is_empty() {
                self.report(&w, why, list_payload(&Services::default()));
            } else {
                self.post(w.notice(why, Payload::default()));
            }
        }
    }

    /// Posts a notice of services, in the place of an earlier one.
    fn report(&self, w: &Watch, failed: &str, list: Payload) {
        let mut inbox = self.0.society.inbox.borrow_mut();
        inbox.retain(|m| !m.notice || m.to != w.by || m.from.as_ref() != Some(&w.of));
        drop(inbox);
        self.post(w.notice(failed, list));
    }

    /// Tells each watch of services the list, unless that is the one before.
    pub(super) fn report_services(&self) {
        let mut watches = self.0.society.watches.take();
        for w in watches.iter_mut().filter(|w| w.of.actor_type.is_empty()) {
            let list = list_payload(&self.listed(&w.of.id));
            if w.told.as_ref() != Some(&list.body) {
                w.told = Some(list.body.clone());
                self.report(w, "", list);
            }
        }
        *self.0.society.watches.borrow_mut() = watches;
    }

    /// The actors that stand for a service, or for those of a group.
    fn listed(&self, watched: &str) -> Services {
        let group = watched.ends_with('/');
        let services = self.0.society.services.borrow();
        let mut list = Services::default();
        for (name, by) in services.iter() {
            if name == watched || group && name.starts_with(watched) {
                list.services.push(NamedActor {
                    name: name.clone(),
                    r#type: by.actor_type.clone(),
                    id: by.id.clone(),
                });
            }
        }
        list.services.sort_by(|a, b| a.name.cmp(&b.name));
        list.more = list.services.len() > MAX_LISTED;
        list.services.truncate(MAX_LISTED);
        list
    }
}

fn list_payload(list: &Services) -> Payload {
    Payload::new("", list.to_json().expect("a list has a form as JSON"))
}
