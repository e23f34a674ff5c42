//! A turn and the turns that it calls: one transaction over their actors.

use super::children::{is_child, no_child};
use super::messages::{Event, Letter};
use super::overlay::{Entries, Overlay};
use super::reminders::{self, TurnReminders};
use super::subscriptions;
use super::watches::Watch;
use super::{check_size, or_default, timers, Asks, Host, Row, World, APP, PAYLOAD_BYTES};
use super::{Fired, STATE_BYTES};
use crate::call;
use crate::codec::{self, MessageFrame, TurnFrame};
use crate::context::Key;
use crate::convert::Payload;
use crate::error::{Error, Status};
use crate::event;
use crate::host::Code;
use crate::life;
use crate::spec::{MethodSpec, Placement, TypeSpec};
use crate::turn::Entry;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// How many turns call each other, and how many actors they have.
const MAX_DEPTH: usize = 32;
const MAX_ACTORS: usize = 64;

/// What a fake answers, and what is known about the method that it stands for.
pub(super) struct FakeMethod {
    pub(super) answer: Box<Answer>,
    pub(super) read_only: Cell<bool>,
    pub(super) elsewhere: Cell<bool>,
}

pub(super) type Answer = dyn Fn(&str, Payload) -> Result<Payload, Error>;

/// An outermost turn, and the turns that it calls.
#[derive(Default)]
pub(super) struct Chain {
    members: RefCell<HashMap<Key, Rc<Member>>>,
    /// The actors whose turns run, the outermost first.
    pub(super) open: RefCell<Vec<Key>>,
    /// A fake runs, or has panicked.
    pub(super) faking: Cell<bool>,
    /// The turn is the hook of an actor that leaves.
    leaving: Cell<bool>,
    pub(super) sent: RefCell<Vec<Letter>>,
    pub(super) published: RefCell<Vec<Event>>,
    pub(super) spawned: RefCell<Vec<Key>>,
    /// The services that it has changed; `None`: released.
    pub(super) services: RefCell<HashMap<String, Option<Key>>>,
    pub(super) watches: RefCell<Vec<Watch>>,
    pub(super) subscriptions: RefCell<Vec<subscriptions::Change>>,
    /// The order of the subscription whose event asks for the turn.
    pub(super) consumes: Cell<Option<u64>>,
}

/// An actor of a chain, as the chain has changed it so far.
pub(super) struct Member {
    pub(super) row: Row,
    pub(super) overlay: Rc<RefCell<Overlay>>,
    reminders: Rc<RefCell<reminders::Changes>>,
    timers: Rc<RefCell<timers::Changes>>,
    spec: TypeSpec,
    /// The schema of what the overlay has.
    schema: Cell<u32>,
    /// Whether a turn that may change the actor has ended well.
    written: Cell<bool>,
    /// The set of methods that it accepts from its next turn on.
    pub(super) method_set: RefCell<String>,
    /// Whether a turn has ended its life.
    pub(super) passed: Rc<Cell<bool>>,
    /// Whether its hooks `created` and `activated` have run in the chain.
    hooked: Cell<(bool, bool)>,
}

/// What a failed call goes back to.
struct Savepoint {
    members: HashMap<Key, Saved>,
    sent: usize,
    published: usize,
    spawned: usize,
    services: HashMap<String, Option<Key>>,
    watches: usize,
    subscriptions: usize,
}

struct Saved {
    entries: Entries,
    revision: u64,
    reminders: reminders::Changes,
    timers: timers::Changes,
    schema: u32,
    written: bool,
    method_set: String,
    passed: bool,
    hooked: (bool, bool),
}

/// Makes a chain that of the host for a while.
struct Running<'h>(&'h World);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.chain.borrow_mut() = None;
    }
}

impl Host {
    /// Runs one call to its commit; one that a fake forwards, to its end.
    pub(super) fn invoke(
        &self,
        entry: &Entry,
        key: &Key,
        method: &MethodSpec,
        payload: &Payload,
        by: Option<Asks<'_>>,
    ) -> Result<Payload, Error> {
        let within = self.0.chain.borrow().clone();
        if let Some(chain) = within {
            return chain.nested(self, entry, key, method, payload);
        }
        if method.private && by.is_none() {
            return Err(refuse(
                Status::PermissionDenied,
                "method_private",
                format!(
                    "only actors, their reminders and their timers call {}",
                    method.name
                ),
            ));
        }
        let chain = Rc::<Chain>::default();
        chain.leaving.set(matches!(by, Some(Asks::Leaving)));
        if let Some(Asks::Event(notice)) = by {
            chain.consumes.set(Some(notice.order));
        }
        let waiting = self.0.reminders.next_order();
        *self.0.chain.borrow_mut() = Some(chain.clone());
        let _running = Running(&self.0);
        let reply = chain.turn(self, entry, key, method, payload, by)?;
        chain.commit(self, waiting);
        Ok(reply)
    }
}

fn refuse(status: Status, code: &str, message: String) -> Error {
    Error::new(status, code, message)
}

impl Chain {
    /// Answers a call that a guest makes, in a turn that is perhaps `read_only`: the reply, and
    /// whether the called turn was committed on its own.
    pub(super) fn call(
        &self,
        host: &Host,
        m: &MessageFrame<'_>,
        read_only: bool,
    ) -> Result<(Payload, bool), Error> {
        if self.leaving.get() {
            let message = "the hook of an actor that leaves cannot call others; send a message";
            return Err(Error::new(
                Status::FailedPrecondition,
                call::NOT_ATOMIC,
                message,
            ));
        }
        let world = &host.0;
        let service = match m.service {
            name if name.is_empty() || !m.actor_type.is_empty() || !m.id.is_empty() => None,
            name => Some(self.service(host, name).ok_or_else(|| {
                let message = format!("no actor stands for the service {name:?}");
                refuse(Status::NotFound, life::SERVICE_NOT_FOUND, message)
            })?),
        };
        let to = service.as_ref();
        let (actor_type, id) = to.map_or((m.actor_type, m.id), |to| (&to.actor_type, &to.id));
        let method = m.method;
        if actor_type.is_empty() || id.is_empty() || method.is_empty() {
            let message = "a call needs a type, an ID and a method".to_string();
            return Err(refuse(Status::InvalidArgument, call::INVALID_CALL, message));
        }
        let key = Key {
            app: APP.to_string(),
            actor_type: actor_type.to_string(),
            id: id.to_string(),
        };
        self.check_family(host, &key)?;
        let payload = Payload::new(m.content_type, m.payload);
        let name = (actor_type.to_string(), method.to_string());
        let fake = world.fakes.borrow().get(&name).cloned();
        let entry = world.types.borrow().get(actor_type).copied();
        let target = entry.and_then(|entry| Some((entry, entry.spec.method(method)?)));
        let may_be_read = match (&target, &fake) {
            (Some((_, target)), _) => target.read_only,
            (None, Some(fake)) => fake.read_only.get(),
            (None, None) => true, // it is not there
        };
        if read_only && !may_be_read {
            return Err(refuse(
                Status::FailedPrecondition,
                "read_only",
                format!("a read-only method calls {actor_type}.{method}, which is not read-only"),
            ));
        }
        if let Some(fake) = fake {
            self.check_closed(&key)?;
            let elsewhere = fake.elsewhere.get();
            if elsewhere && m.flags & codec::FLAG_ATOMIC != 0 {
                let message = format!("{actor_type} {id} is at another server, as its fake says");
                return Err(refuse(
                    Status::FailedPrecondition,
                    call::NOT_ATOMIC,
                    message,
                ));
            }
            let before = self.save();
            self.faking.set(true);
            let result = (fake.answer)(id, payload);
            self.faking.set(false);
            if result.is_err() {
                self.go_back(before);
            }
            return result.map(|reply| (reply, elsewhere));
        }
        let faked = world.fakes.borrow().keys().any(|(of, _)| of == actor_type);
        match target {
            Some((entry, method)) => {
                let reply = self.nested(host, &entry, &key, method, &payload)?;
                Ok((reply, false))
            }
            None if entry.is_some() || faked => Err(refuse(
                Status::NotFound,
                call::METHOD_NOT_FOUND,
                format!("{actor_type} has no method {method:?} here"),
            )),
            None => Err(refuse(
                Status::NotFound,
                call::TYPE_NOT_FOUND,
                format!("there is no actor type {actor_type:?} here; in this test, call add_type or fake"),
            )),
        }
    }

    fn check_closed(&self, key: &Key) -> Result<(), Error> {
        if self.open.borrow().contains(key) {
            let message = format!(
                "a turn of {} {} waits for this call",
                key.actor_type, key.id
            );
            return Err(refuse(
                Status::FailedPrecondition,
                call::NOT_REENTRANT,
                message,
            ));
        }
        Ok(())
    }

    /// Runs a called turn. One that fails changes nothing.
    fn nested(
        &self,
        host: &Host,
        entry: &Entry,
        key: &Key,
        method: &MethodSpec,
        payload: &Payload,
    ) -> Result<Payload, Error> {
        if !method.reentrant && !entry.spec.reentrant {
            self.check_closed(key)?;
        }
        if self.open.borrow().len() > MAX_DEPTH {
            let message = format!("calls are nested at most {MAX_DEPTH} deep");
            return Err(refuse(Status::FailedPrecondition, call::TOO_DEEP, message));
        }
        let (known, actors) = {
            let members = self.members.borrow();
            (members.contains_key(key), members.len())
        };
        if !known && actors == MAX_ACTORS {
            let message = format!("a turn and what it calls have at most {MAX_ACTORS} actors");
            return Err(refuse(Status::ResourceExhausted, call::TOO_MANY, message));
        }
        let before = self.save();
        let result = self.turn(host, entry, key, method, payload, None);
        if result.is_err() {
            self.go_back(before);
        }
        result
    }

    fn save(&self) -> Savepoint {
        let members = self.members.borrow();
        let saved = members.iter().map(|(key, m)| (key.clone(), m.save()));
        Savepoint {
            members: saved.collect(),
            sent: self.sent.borrow().len(),
            published: self.published.borrow().len(),
            spawned: self.spawned.borrow().len(),
            services: self.services.borrow().clone(),
            watches: self.watches.borrow().len(),
            subscriptions: self.subscriptions.borrow().len(),
        }
    }

    fn go_back(&self, mut to: Savepoint) {
        self.sent.borrow_mut().truncate(to.sent);
        self.published.borrow_mut().truncate(to.published);
        self.spawned.borrow_mut().truncate(to.spawned);
        *self.services.borrow_mut() = to.services;
        self.watches.borrow_mut().truncate(to.watches);
        self.subscriptions.borrow_mut().truncate(to.subscriptions);
        self.members.borrow_mut().retain(|key, member| {
            let saved = to.members.remove(key);
            let known = saved.is_some();
            saved.into_iter().for_each(|saved| member.go_back(saved));
            known
        });
    }

    fn member(&self, world: &World, spec: &TypeSpec, key: &Key, row: Row) -> Rc<Member> {
        let mut members = self.members.borrow_mut();
        let member = members.entry(key.clone()).or_insert_with(|| {
            let passed = Rc::<Cell<bool>>::default();
            Rc::new(Member {
                overlay: Rc::new(RefCell::new(Overlay::new(
                    row.entries.clone(),
                    row.revision,
                    world.revisions.clone(),
                    spec.placement == Placement::Stateless,
                    passed.clone(),
                ))),
                reminders: Rc::default(),
                timers: Rc::default(),
                spec: *spec,
                schema: Cell::new(row.schema),
                written: Cell::new(false),
                method_set: RefCell::new(row.set.clone()),
                passed,
                hooked: Cell::default(),
                row,
            })
        });
        member.clone()
    }

    /// Runs a turn to its end.
    fn turn(
        &self,
        host: &Host,
        entry: &Entry,
        key: &Key,
        method: &MethodSpec,
        payload: &Payload,
        by: Option<Asks<'_>>,
    ) -> Result<Payload, Error> {
        let (world, spec) = (&host.0, &entry.spec);
        let caller = self.open.borrow().last().cloned();
        if caller.is_none() && world.last.borrow().as_ref() != Some(key) {
            host.drop_memory();
            *world.last.borrow_mut() = Some(key.clone());
        }
        if caller.is_none() && by.is_none() && is_child(key) {
            return Err(no_child(key)); // nobody outside knows it
        }
        let limit = or_default(spec.limits.payload_bytes, PAYLOAD_BYTES);
        let size = payload.body.len() as u64;
        check_size(Status::InvalidArgument, "payload", size, limit)?;
        if self.spawned.borrow().contains(key) {
            let message = format!(
                "{} {} was spawned in this transaction, and takes calls once that is committed; send it a message",
                key.actor_type, key.id
            );
            return Err(refuse(
                Status::FailedPrecondition,
                call::NOT_ATOMIC,
                message,
            ));
        }
        host.check_alive(key, spec.spawn_only)?;
        let known = self.members.borrow().get(key).cloned();
        if known.map_or(false, |member| member.passed.get()) {
            let message = format!(
                "{} {} has passed away in this transaction",
                key.actor_type, key.id
            );
            return Err(refuse(Status::NotFound, life::PASSED_AWAY, message));
        }
        let row = host.row(key);
        if row.schema > spec.state_schema {
            return Err(Error::new(
                Status::FailedPrecondition,
                "schema_newer",
                format!(
                    "the state has schema {}, the type knows {}",
                    row.schema, spec.state_schema
                ),
            ));
        }
        let member = self.member(world, spec, key, row);
        let set = member.method_set.borrow().clone();
        if matches!(
            by,
            None | Some(Asks::Message(Letter {
                returned: false,
                ..
            }))
        ) && !set.is_empty()
            && !method.sets.is_empty()
            && !method.sets.contains(&set.as_str())
        {
            let message = format!(
                "{} {} is in the set {set:?} of methods, which does not have {}",
                key.actor_type, key.id, method.name
            );
            return Err(refuse(
                Status::FailedPrecondition,
                life::NOT_ACCEPTED,
                message,
            ));
        }
        let stateless = spec.placement == Placement::Stateless;
        let may_write = match (stateless, method.read_only) {
            (true, _) => Err(Code::NO_STATE),
            (_, true) => Err(Code::READ_ONLY),
            _ => Ok(()),
        };
        let reminders = Rc::new(TurnReminders {
            all: world.reminders.clone(),
            key: key.clone(),
            spec: *spec,
            now: world.now.get(),
            may_write,
            stateless,
            read_only: method.read_only,
            changes: member.reminders.clone(),
            timers: member.timers.clone(),
            operated: Cell::new(0),
            problem: RefCell::default(),
            passed: member.passed.clone(),
            sent: Cell::default(),
        });
        if let Some(Asks::Reminder(fired)) = by {
            let mut changes = reminders.changes.borrow_mut();
            changes.insert(fired.set.1.name.clone(), fired.then());
        }
        let invocation = format!("invocation-{}", world.turns.get() + 1);
        let mut frame = TurnFrame {
            app: &key.app,
            actor_type: &key.actor_type,
            id: &key.id,
            invocation_id: &invocation,
            time_unix_nano: world.now.get(),
            ..TurnFrame::default()
        };
        if spec.migrate && member.row.version > 0 && member.schema.get() < spec.state_schema {
            frame.what = codec::WHAT_MIGRATE;
            frame.stored_schema = member.schema.get();
            self.run(host, entry, key, &member, &reminders, &frame)?;
            frame.stored_schema = 0;
            member.schema.set(spec.state_schema);
        }
        frame.what = codec::WHAT_METHOD;
        frame.method_set = &set;
        if !method.read_only && !matches!(by, Some(Asks::Leaving)) {
            let (created, activated) = member.hooked.get();
            let create = !created && !member.row.created;
            let activate = !activated && !world.awake.borrow().contains(key);
            for (due, name) in [
                (create, spec.hooks.created),
                (activate, spec.hooks.activated),
            ] {
                if due && !name.is_empty() {
                    frame.method = name;
                    self.run(host, entry, key, &member, &reminders, &frame)
                        .map_err(|e| e.context(&format!("the hook {name}")))?;
                }
            }
            let create = create && !spec.hooks.created.is_empty();
            member.hooked.set((created || create, true));
        }
        frame.method = method.name;
        frame.content_type = &payload.content_type;
        frame.payload = &payload.body;
        match by {
            Some(Asks::Timer(timer)) => {
                frame.cause = codec::CAUSE_TIMER;
                frame.cause_name = &timer.name;
                frame.due_unix_nano = timer.due;
                frame.attempt = 1;
            }
            Some(Asks::Reminder(Fired { set, firing })) => {
                frame.cause = codec::CAUSE_REMINDER;
                frame.cause_name = &set.1.name;
                frame.due_unix_nano = firing.due;
                frame.attempt = firing.attempt;
                frame.missed = firing.missed;
                let metadata = set.1.metadata.iter();
                frame.metadata = metadata.map(|(n, v)| (n.as_str(), v.as_str())).collect();
            }
            Some(Asks::Message(m)) => {
                frame.cause = m.cause();
                frame.due_unix_nano = m.sent;
                frame.attempt = m.failures + 1;
                frame.cookie = m.cookie;
                frame.failed = &m.failed;
                if let Some(name) = m.watched_service() {
                    frame.cause_name = name;
                } else if let Some(from) = &m.from {
                    frame.caller_type = &from.actor_type;
                    frame.caller_id = &from.id;
                }
                if let Some(by) = &m.by {
                    frame.by_type = &by.actor_type;
                    frame.by_id = &by.id;
                }
            }
            Some(Asks::Event(notice)) => {
                frame.cause = codec::CAUSE_EVENT;
                if notice.event.ends_life() {
                    frame.failed = event::PASSED_AWAY;
                } else {
                    frame.cause_name = &notice.event.name;
                }
                frame.due_unix_nano = notice.published;
                frame.attempt = notice.attempt;
                frame.caller_type = &notice.event.from.actor_type;
                frame.caller_id = &notice.event.from.id;
            }
            Some(Asks::Leaving) => {}
            None => {
                if let Some(caller) = &caller {
                    frame.cause = codec::CAUSE_CALL;
                    frame.caller_type = &caller.actor_type;
                    frame.caller_id = &caller.id;
                }
            }
        }
        if method.read_only {
            frame.flags = codec::FLAG_READ_ONLY;
        }
        let reply = self.run(host, entry, key, &member, &reminders, &frame)?;
        let limit = or_default(spec.limits.state_bytes, STATE_BYTES);
        let size = member.overlay.borrow().size();
        if let Err(e) = check_size(Status::FailedPrecondition, "state", size, limit) {
            host.drop_memory(); // it may hold what is not committed now
            return Err(match caller {
                Some(_) => Error::new(Status::Internal, call::FAILED, e.message()),
                None => e,
            });
        }
        member
            .written
            .set(member.written.get() || !method.read_only);
        Ok(reply)
    }

    /// Hands one frame to the actor, which is open meanwhile.
    fn run(
        &self,
        host: &Host,
        entry: &Entry,
        key: &Key,
        member: &Rc<Member>,
        reminders: &Rc<TurnReminders>,
        frame: &TurnFrame<'_>,
    ) -> Result<Payload, Error> {
        let read_only = frame.flags & codec::FLAG_READ_ONLY != 0;
        let outer = std::mem::replace(&mut member.overlay.borrow_mut().read_only, read_only);
        self.open.borrow_mut().push(key.clone());
        let result = host.run(entry, key, member, reminders, frame);
        self.open.borrow_mut().pop();
        member.overlay.borrow_mut().read_only = outer;
        result
    }

    /// Whether the turn that runs was called.
    pub(super) fn is_nested(&self) -> bool {
        self.open.borrow().len() > 1
    }

    /// The actor that stands for a service, as the chain sees it.
    pub(super) fn service(&self, host: &Host, name: &str) -> Option<Key> {
        match self.services.borrow().get(name) {
            Some(changed) => changed.clone(),
            None => host.service(name),
        }
    }

    /// `waiting` is the last message that was there when it began.
    fn commit(&self, host: &Host, waiting: u64) {
        let (world, society) = (&host.0, &host.0.society);
        let spawned = self.spawned.take();
        society.spawned.set(society.spawned.get() + spawned.len());
        for key in spawned {
            let row = Row {
                spawned: true,
                version: 1,
                ..host.row(&key)
            };
            world.rows.borrow_mut().insert(key, row);
        }
        for (name, by) in self.services.take() {
            let mut services = society.services.borrow_mut();
            match by {
                Some(by) => services.insert(name, by),
                None => services.remove(&name),
            };
        }
        self.commit_watches(host);
        self.commit_subscriptions(host); // before the events of the chain, which are new
        host.0.society.keep(self.published.take());
        for (key, member) in self.members.borrow().iter() {
            if member.written.get() {
                world.awake.borrow_mut().insert(key.clone());
                member.commit(host, key);
                if member.passed.get() {
                    host.end_life(key, waiting);
                }
            }
        }
        for letter in self.sent.take() {
            host.post(letter);
        }
        host.report_services();
    }
}

impl Member {
    fn save(&self) -> Saved {
        let overlay = self.overlay.borrow();
        Saved {
            entries: overlay.entries.clone(),
            revision: overlay.revision,
            reminders: self.reminders.borrow().clone(),
            timers: self.timers.borrow().clone(),
            schema: self.schema.get(),
            written: self.written.get(),
            method_set: self.method_set.borrow().clone(),
            passed: self.passed.get(),
            hooked: self.hooked.get(),
        }
    }

    fn go_back(&self, to: Saved) {
        let mut overlay = self.overlay.borrow_mut();
        if overlay.revision != to.revision {
            overlay.restore(to.entries);
        }
        *self.reminders.borrow_mut() = to.reminders;
        *self.timers.borrow_mut() = to.timers;
        self.schema.set(to.schema);
        self.written.set(to.written);
        *self.method_set.borrow_mut() = to.method_set;
        self.passed.set(to.passed);
        self.hooked.set(to.hooked);
    }

    fn commit(&self, host: &Host, key: &Key) {
        let world = &host.0;
        let overlay = self.overlay.borrow();
        let set = self.method_set.borrow().clone();
        let (created, _) = self.hooked.get();
        if overlay.revision != self.row.revision || set != self.row.set || created {
            let stored = host.row(key);
            let row = Row {
                version: stored.version + 1,
                revision: overlay.revision,
                schema: self.spec.state_schema,
                entries: overlay.entries.clone(),
                set,
                spawned: stored.spawned,
                created: stored.created || created,
            };
            world.rows.borrow_mut().insert(key.clone(), row);
        }
        world.reminders.commit(key, &self.reminders.borrow());
        world.reminders.timers.commit(key, &self.timers.borrow());
    }
}
