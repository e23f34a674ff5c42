//! What a turn does beside its actor's state: messages, events, spawned actors, services.

use super::chain::{Chain, Member};
use super::children::is_child;
use super::messages::{key_of, Event, Letter, RESERVED_EVENTS};
use super::reminders::TurnReminders;
use super::Host;
use crate::codec;
use crate::context::Key;
use crate::convert::Payload;
use crate::host::Code;
use crate::spec::Placement;

/// Bounds of `abi/SPEC.md` section 5, Messages.
const MAX_MESSAGES: usize = 256;
const MAX_MESSAGE_BYTES: usize = 1 << 20;
const MAX_MESSAGE: usize = 64 << 10;
const MAX_INBOX: usize = 10_000;

/// The longest name of an event, in bytes.
const MAX_EVENT_NAME: usize = 128;

/// How many actors a turn may spawn, with those that it calls.
pub(super) const MAX_SPAWNED: usize = 64;

/// The longest name of a service, in bytes.
const MAX_SERVICE: usize = 256;

/// What a turn does beside its actor's state.
pub(super) struct Acts<'t> {
    pub(super) host: &'t Host,
    pub(super) chain: &'t Chain,
    pub(super) turn: &'t TurnReminders,
    pub(super) member: &'t Member,
    /// Whether the turn migrates.
    pub(super) migrates: bool,
}

impl Acts<'_> {
    pub(super) fn may_act(&self) -> Result<(), Code> {
        self.turn.problem.borrow_mut().clear();
        if self.turn.read_only || self.migrates {
            return Err(Code::READ_ONLY);
        }
        Ok(())
    }

    /// For what only an actor with a row can do.
    pub(super) fn may_live(&self) -> Result<(), Code> {
        self.may_act()?;
        if self.turn.stateless {
            return Err(Code::NO_STATE);
        }
        if self.member.passed.get() {
            return Err(Code::OVER);
        }
        Ok(())
    }

    /// For what is stored beside a state.
    pub(super) fn may_keep(&self) -> Result<(), Code> {
        self.turn.may_keep()
    }

    pub(super) fn refuse<T>(&self, code: Code, problem: String) -> Result<T, Code> {
        *self.turn.problem.borrow_mut() = problem;
        Err(code)
    }

    pub(super) fn send(&self, frame: &[u8]) -> Result<(), Code> {
        self.may_act()?;
        let m = match codec::decode_message(frame) {
            Ok(m) => m,
            Err(e) => return self.turn.refuse(e.to_string()),
        };
        let named = !m.actor_type.is_empty() || !m.id.is_empty();
        let to = match self.chain.service(self.host, m.service) {
            _ if m.service.is_empty() => key_of(m.actor_type, m.id),
            _ if named => {
                let problem = "the message names a service and an actor; give one of them";
                return self.turn.refuse(problem);
            }
            Some(to) => to,
            None => {
                let problem = format!("no actor stands for the service {:?}", m.service);
                return self.refuse(Code::NOT_FOUND, problem);
            }
        };
        let other = |of: &str, id: &str| Some(key_of(of, id)).filter(|_| !of.is_empty());
        let own = self.turn.key.clone();
        let on_behalf = other(m.on_behalf_type, m.on_behalf_id);
        let letter = Letter {
            by: on_behalf.as_ref().map(|_| own.clone()),
            from: Some(on_behalf.unwrap_or(own)),
            cookie: m.cookie,
            volatile: m.flags & codec::FLAG_VOLATILE != 0,
            undelivered: m.undelivered.to_string(),
            forward: other(m.forward_type, m.forward_id),
            delay: m.delay_nano,
            at: m.due_unix_nano,
            ..Letter::new(to, m.method, Payload::new(m.content_type, m.payload))
        };
        if m.flags & !codec::FLAG_VOLATILE != 0 || m.limit_millis != 0 {
            return self.turn.refuse("only calls are atomic or have a timeout");
        }
        if letter.volatile && (!m.service.is_empty() || letter.forward.is_some()) {
            let problem = "a volatile message is sent to an actor, and is not forwarded";
            return self.turn.refuse(problem);
        }
        if !letter.volatile && m.channel != 0 {
            return self.turn.refuse("only volatile messages have a channel");
        }
        if !letter.volatile {
            self.may_keep()?;
        }
        if let Err(problem) = self.check(&letter) {
            return self.turn.refuse(problem);
        }
        let size = m.payload.len() + m.content_type.len() + m.method.len() + letter.to.id.len();
        if m.payload.len() > MAX_MESSAGE && !letter.volatile {
            let size = m.payload.len();
            let problem = format!("the input has {size} bytes; at most {MAX_MESSAGE} are allowed");
            return self.refuse(Code::TOO_LARGE, problem);
        }
        let (sent, bytes) = self.turn.sent.get();
        if sent == MAX_MESSAGES {
            let problem = format!("a turn sends at most {MAX_MESSAGES} messages");
            return self.refuse(Code::TOO_MANY, problem);
        }
        if bytes + size > MAX_MESSAGE_BYTES {
            let problem = format!("the messages of this turn have more than {MAX_MESSAGE_BYTES} bytes; keep the data in the state, and name it in the message");
            return self.refuse(Code::TOO_LARGE, problem);
        }
        let inbox = self.host.0.society.inbox.borrow();
        let mut sending = self.chain.sent.borrow_mut();
        let all = inbox.iter().chain(sending.iter());
        if all.filter(|other| other.to == letter.to).count() >= MAX_INBOX {
            let problem = format!(
                "the inbox of {} has {MAX_INBOX} messages, which is as many as it may",
                letter.to
            );
            return self.refuse(Code::FULL, problem);
        }
        self.turn.sent.set((sent + 1, bytes + size));
        sending.push(letter);
        Ok(())
    }

    fn check(&self, m: &Letter) -> Result<(), String> {
        let own = &self.turn.key;
        self.host.check_related(own, &m.to)?;
        if is_child(own) && m.by.is_some() {
            return Err("a volatile child sends messages for itself alone".to_string());
        }
        if is_child(&m.to) && !m.volatile {
            return Err("a volatile child takes no durable message; tell it".to_string());
        }
        if !m.volatile {
            self.host.check_receiver(&m.to, &m.method)?; // otherwise it is undelivered
        }
        if m.delay < 0 {
            return Err("the delay is below zero".to_string());
        }
        if m.delay != 0 && m.at != 0 {
            return Err("the message has a delay and a time; give one of them".to_string());
        }
        if let Some(from) = m.from.as_ref().filter(|_| !m.undelivered.is_empty()) {
            self.host
                .check_receiver(from, &m.undelivered)
                .map_err(|problem| format!("undelivered: {problem}"))?;
        }
        match &m.forward {
            None => Ok(()),
            Some(to) => self
                .host
                .check_receiver(to, &m.method)
                .map_err(|problem| format!("forward: {problem}")),
        }
    }

    pub(super) fn publish(&self, (name, payload): (&str, &Payload)) -> Result<(), Code> {
        self.may_live()?;
        self.may_keep()?;
        if name.is_empty() || name.len() > MAX_EVENT_NAME || name.chars().any(char::is_control) {
            let problem = format!(
                "the event name has {} bytes; give 1 to {MAX_EVENT_NAME} without control characters",
                name.len()
            );
            return self.turn.refuse(problem);
        }
        if name.starts_with(RESERVED_EVENTS) {
            let problem = format!("the event name begins with {RESERVED_EVENTS}; choose another");
            return self.turn.refuse(problem);
        }
        let size = payload.body.len();
        if size > MAX_MESSAGE {
            let problem = format!("the event has {size} bytes; at most {MAX_MESSAGE} are allowed");
            return self.turn.refuse(problem);
        }
        let mut published = self.chain.published.borrow_mut();
        let own = published.iter().filter(|e| e.from == self.turn.key);
        if own.count() >= MAX_MESSAGES {
            let problem = format!("a turn publishes at most {MAX_MESSAGES} events");
            return self.refuse(Code::TOO_MANY, problem);
        }
        published.push(Event {
            from: self.turn.key.clone(),
            name: name.to_string(),
            payload: payload.clone(),
            at: codec::time(self.host.0.now.get()),
        });
        Ok(())
    }

    pub(super) fn spawn(&self, actor_type: &str) -> Result<String, Code> {
        self.may_live()?;
        self.may_keep()?;
        let world = &self.host.0;
        self.check_type(actor_type, "need not be spawned")?;
        let mut spawned = self.chain.spawned.borrow_mut();
        if spawned.len() == MAX_SPAWNED {
            let problem = format!("a turn may spawn {MAX_SPAWNED} actors");
            return self.refuse(Code::TOO_MANY, problem);
        }
        let id = format!(
            "spawned-{}",
            world.society.spawned.get() + spawned.len() + 1
        );
        spawned.push(key_of(actor_type, &id));
        Ok(id)
    }

    /// Refuses a type that the host does not have, and a stateless one, whose actors say so.
    pub(super) fn check_type(&self, actor_type: &str, stateless: &str) -> Result<(), Code> {
        let world = &self.host.0;
        let entry = world.types.borrow().get(actor_type).copied();
        let faked = world.fakes.borrow().keys().any(|(of, _)| of == actor_type);
        match entry {
            None if !faked => {
                let problem = format!("there is no actor type {actor_type:?} here");
                self.turn.refuse(problem)
            }
            Some(entry) if entry.spec.placement == Placement::Stateless => {
                let problem = format!("{actor_type} is stateless: its actors {stateless}");
                self.turn.refuse(problem)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn become_(&self, set: &str) -> Result<(), Code> {
        self.may_live()?;
        let spec = &self.turn.spec;
        if !set.is_empty() && !spec.all_methods().any(|m| m.sets.contains(&set)) {
            let name = spec.name;
            return self.turn.refuse(format!(
                "no method of {name} is in a set {set:?}; add #[method(in = …)] to those that are accepted in it"
            ));
        }
        *self.member.method_set.borrow_mut() = set.to_string();
        Ok(())
    }

    pub(super) fn pass_away(&self) -> Result<(), Code> {
        self.may_live()?;
        self.member.passed.set(true);
        Ok(())
    }

    pub(super) fn check_service(&self, name: &str) -> Result<(), Code> {
        if name.is_empty() || name.len() > MAX_SERVICE || name.chars().any(char::is_control) {
            let problem = format!(
                "the service has {} bytes; give 1 to {MAX_SERVICE} without control characters",
                name.len()
            );
            return self.turn.refuse(problem);
        }
        Ok(())
    }

    pub(super) fn claim(&self, name: &str) -> Result<(), Code> {
        self.may_live()?;
        self.may_keep()?;
        self.check_service(name)?;
        match self.chain.service(self.host, name) {
            Some(by) if by != self.turn.key => {
                let problem = format!("{by} stands for the service {name:?}");
                self.refuse(Code::TAKEN, problem)
            }
            _ => {
                self.change(name, Some(self.turn.key.clone()));
                Ok(())
            }
        }
    }

    pub(super) fn release(&self, name: &str) -> Result<bool, Code> {
        self.may_live()?;
        self.may_keep()?;
        self.check_service(name)?;
        let held = self.chain.service(self.host, name).as_ref() == Some(&self.turn.key);
        if held {
            self.change(name, None);
        }
        Ok(held)
    }

    fn change(&self, service: &str, by: Option<Key>) {
        let mut services = self.chain.services.borrow_mut();
        services.insert(service.to_string(), by);
    }
}
