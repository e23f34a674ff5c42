//! Volatile children of an actor: `abi/SPEC.md` section 5.

use crate::actor::Actor;
use crate::address::Ref;
use crate::context::{direct, Context};
use crate::error::Error;
use crate::life::refused;
use crate::reminder::doing;

/// Where a volatile child takes its turns from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mailbox {
    /// A mailbox of its own: the child runs beside its parent.
    #[default]
    Own,
    /// Its parent's: of the parent and of all children that share its mailbox, one turn runs at a
    /// time, in the order in which calls and messages came.
    Shared,
}

impl Mailbox {
    fn flags(self) -> u32 {
        match self {
            Mailbox::Own => 0,
            Mailbox::Shared => crate::codec::FLAG_CHILD_SHARED,
        }
    }
}

impl Context {
    /// Makes a volatile child of the actor: an actor of the type `A` that is kept in memory
    /// alone. It is gone, with its state, when its parent leaves memory, moves to another host,
    /// passes away or is deleted, when its host ends, and when it passes away itself.
    ///
    /// The child exists when the turn has committed: the turn itself can tell it something
    /// ([`tell`](crate::Message::tell)), and cannot call it
    /// ([`NOT_ATOMIC`](crate::call::NOT_ATOMIC)). Its parent, the parent's other children and
    /// itself call it and tell it, and it calls and tells them; for all others it does not exist
    /// ([`PASSED_AWAY`](crate::life::PASSED_AWAY)), and it does nothing that is stored: it has no
    /// reminders, timers, durable messages, events, services, watches, spawned actors and children
    /// (`no_state`). What it does when it is called is committed or taken back with its caller's
    /// turn.
    ///
    /// # Errors
    ///
    /// `invalid_type`: the app has no such type, or one that is placed `any` or `stateless`;
    /// `too_many`: an actor has at most 100 children; `no_state`: the actor's own type is
    /// placed so, or it is a child.
    pub fn spawn_child<A: Actor>(&self, mailbox: Mailbox) -> Result<Ref, Error> {
        self.spawn_child_named(A::SPEC.name, mailbox)
    }

    /// As [`spawn_child`](Context::spawn_child), with the name of a type of the app.
    ///
    /// # Errors
    ///
    /// As those of [`spawn_child`](Context::spawn_child).
    pub fn spawn_child_named(&self, actor_type: &str, mailbox: Mailbox) -> Result<Ref, Error> {
        let child = (actor_type, mailbox.flags());
        match direct!(self, spawn_child(child)) {
            Ok(id) => Ok(Ref::new(actor_type, id)),
            Err(code) => Err(refused(
                self,
                code,
                &doing("spawn", "child", actor_type),
                "invalid_type",
            )),
        }
    }
}
