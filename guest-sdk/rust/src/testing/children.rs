//! The volatile children of actors.

use super::chain::Chain;
use super::living::{Acts, MAX_SPAWNED};
use super::messages::key_of;
use super::Host;
use crate::call;
use crate::codec::FLAG_CHILD_SHARED;
use crate::context::Key;
use crate::error::{Error, Status};
use crate::host::Code;
use crate::life;
use crate::spec::Placement;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// How IDs of volatile children begin.
const MARKS: [char; 2] = ['\u{1}', '\u{2}'];

/// How many volatile children an actor has.
const MAX_CHILDREN: usize = 100;

/// The volatile children of actors. The ID of a child has the name of its family, which ends with its
/// parent's presence in memory.
#[derive(Default)]
pub(super) struct Families {
    names: RefCell<HashMap<Key, String>>,
    parents: RefCell<HashMap<String, Key>>,
    begun: Cell<usize>,
    made: Cell<usize>,
}

/// Whether a key is that of a volatile child.
pub(super) fn is_child(key: &Key) -> bool {
    key.id.starts_with(&MARKS[..])
}

/// The name of the family that a child's ID has.
fn family_of(key: &Key) -> Option<&str> {
    let rest = key.id.strip_prefix(&MARKS[..])?;
    rest.split_once('.').map(|(name, _)| name)
}

impl Families {
    /// The parent of a child whose family lives; an actor that is no child itself.
    fn root(&self, key: &Key) -> Option<Key> {
        if !is_child(key) {
            return Some(key.clone());
        }
        self.parents.borrow().get(family_of(key)?).cloned()
    }

    /// Whether two actors, one of them a child, are a parent and its child, or children of one
    /// parent.
    fn related(&self, a: &Key, b: &Key) -> bool {
        let root = self.root(a);
        root.is_some() && root == self.root(b)
    }

    /// The name of the family of a parent, which begins if there is none.
    fn begin(&self, parent: &Key) -> String {
        if let Some(name) = self.names.borrow().get(parent) {
            return name.clone();
        }
        self.begun.set(self.begun.get() + 1);
        let name = format!("family-{}", self.begun.get());
        self.names.borrow_mut().insert(parent.clone(), name.clone());
        self.parents
            .borrow_mut()
            .insert(name.clone(), parent.clone());
        name
    }
}

/// The error of a call of a child that is gone, or of another family.
pub(super) fn no_child(key: &Key) -> Error {
    let message = format!(
        "{} {:?} is no volatile child that lives, of this actor or of its parent",
        key.actor_type, key.id
    );
    Error::new(Status::NotFound, life::PASSED_AWAY, message)
}

impl Host {
    /// Ends the children of an actor.
    pub(super) fn end_family(&self, parent: &Key) {
        let families = &self.0.society.families;
        let name = match families.names.borrow_mut().remove(parent) {
            Some(name) => name,
            None => return,
        };
        families.parents.borrow_mut().remove(&name);
        let of = |key: &Key| family_of(key) == Some(name.as_str());
        self.0.rows.borrow_mut().retain(|key, _| !of(key));
        self.0.awake.borrow_mut().retain(|key| !of(key));
    }

    /// Why an actor does not tell another one anything, if one of the two is a volatile child.
    pub(super) fn check_related(&self, from: &Key, to: &Key) -> Result<(), String> {
        if !is_child(from) && !is_child(to) || self.0.society.families.related(from, to) {
            return Ok(());
        }
        Err(if is_child(from) {
            "a volatile child sends messages to its parent and to other children of it; have the parent send this one"
        } else {
            "that is no volatile child of this actor, or one of an earlier activation"
        }
        .to_string())
    }
}

impl Chain {
    /// Why a turn of the chain does not call an actor, if one of the two is a volatile child.
    pub(super) fn check_family(&self, host: &Host, to: &Key) -> Result<(), Error> {
        let by = self.open.borrow().last().cloned();
        let by = by.unwrap_or_else(|| key_of("", ""));
        if !is_child(&by) && !is_child(to) || host.0.society.families.related(&by, to) {
            return Ok(());
        }
        if is_child(&by) {
            let message = "a volatile child calls its parent and other children of it; have the parent call others";
            return Err(Error::new(
                Status::FailedPrecondition,
                call::INVALID_CALL,
                message,
            ));
        }
        Err(no_child(to))
    }
}

impl Acts<'_> {
    pub(super) fn spawn_child(&self, (actor_type, flags): (&str, u32)) -> Result<String, Code> {
        self.may_live()?;
        self.may_keep()?;
        let own = &self.turn.key;
        if self.turn.spec.placement == Placement::Any {
            let problem = format!(
                "no host keeps actors of the type {} in memory between their turns",
                own.actor_type
            );
            return self.refuse(Code::NO_STATE, problem);
        }
        self.check_type(actor_type, "are no children")?;
        let entry = self.host.0.types.borrow().get(actor_type).copied();
        if entry.map_or(false, |entry| entry.spec.placement == Placement::Any) {
            let problem = format!(
                "the type {actor_type} is placed any, and no host keeps its actors in memory"
            );
            return self.turn.refuse(problem);
        }
        let families = &self.host.0.society.families;
        let name = families.begin(own);
        let of = |key: &&Key| family_of(key) == Some(name.as_str());
        let mut spawned = self.chain.spawned.borrow_mut();
        if spawned.len() == MAX_SPAWNED {
            let problem = format!("a turn may spawn {MAX_SPAWNED} actors");
            return self.refuse(Code::TOO_MANY, problem);
        }
        let living = self.host.0.rows.borrow();
        let living = living.iter().filter(|(_, row)| row.spawned);
        if living
            .map(|(key, _)| key)
            .chain(spawned.iter())
            .filter(of)
            .count()
            >= MAX_CHILDREN
        {
            let problem = format!(
                "an actor has at most {MAX_CHILDREN} volatile children; have some pass away"
            );
            return self.refuse(Code::TOO_MANY, problem);
        }
        families.made.set(families.made.get() + 1);
        let mark = if flags & FLAG_CHILD_SHARED == 0 {
            '\u{1}'
        } else {
            '\u{2}'
        };
        let id = format!("{mark}{name}.{}", families.made.get());
        spawned.push(key_of(actor_type, &id));
        Ok(id)
    }
}
