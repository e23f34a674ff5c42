use super::messages::Letter;
use super::overlay::{self, Entries, Value};
use super::{Asks, Host, APP};
use crate::actor::Actor;
use crate::context::Key;
use crate::convert::{FromJson, Input, Output, Payload};
use crate::error::{Error, Status};
use crate::json;
use crate::spec::MethodSpec;
use crate::turn::Entry;
use crate::watch::{DISCONNECTED, MOVED};
use std::fmt;
use std::marker::PhantomData;

/// The type of an actor that is known by its name alone, as it is to callers.
#[derive(Debug)]
pub enum ByName {}

/// One actor of a [`Host`], of the type `A` or [`ByName`].
pub struct ActorRef<A = ByName> {
    host: Host,
    key: Key,
    entry: Entry,
    actor: PhantomData<fn() -> A>,
}

impl Host {
    /// The actor with this type and ID. Like every actor it exists already. The host
    /// has the type from then on.
    ///
    /// # Panics
    ///
    /// The host has another type of the same name.
    #[must_use]
    pub fn actor<A: Actor>(&self, id: &str) -> ActorRef<A> {
        self.add_type::<A>();
        ActorRef::new(self.clone(), Entry::of::<A>(), id)
    }

    /// As [`actor`](Host::actor), with the name of a type that the host has.
    ///
    /// # Panics
    ///
    /// The host has no type of this name.
    #[must_use]
    pub fn actor_named(&self, actor_type: &str, id: &str) -> ActorRef {
        let types = self.0.types.borrow();
        let entry = types.get(actor_type).unwrap_or_else(|| {
            panic!("no actor type {actor_type:?} here; begin with Host::of(&GREENROOM_MODULE), or add_type")
        });
        ActorRef::new(self.clone(), *entry, id)
    }
}

impl<A> ActorRef<A> {
    fn new(host: Host, entry: Entry, id: &str) -> ActorRef<A> {
        ActorRef {
            host,
            key: Key {
                app: APP.to_string(),
                actor_type: entry.spec.name.to_string(),
                id: id.to_string(),
            },
            entry,
            actor: PhantomData,
        }
    }
}

impl<A> Clone for ActorRef<A> {
    fn clone(&self) -> ActorRef<A> {
        ActorRef {
            host: self.host.clone(),
            key: self.key.clone(),
            entry: self.entry,
            actor: PhantomData,
        }
    }
}

impl<A> fmt::Debug for ActorRef<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActorRef({})", self.key)
    }
}

impl<A> ActorRef<A> {
    /// Calls a method, as a caller from outside would. `()` is no argument.
    ///
    /// # Errors
    ///
    /// What the method returned, or what a host would say: `method_not_found`,
    /// `method_private`, `payload_too_large`, `state_too_large`, `schema_newer`. Where a host would lose
    /// what a read-only method changed in the struct, by way of a `Cell` for example, it
    /// is `read_only` here.
    ///
    /// # Panics
    ///
    /// The method panics; the panic comes through after the turn was undone.
    pub fn call<T: Input>(&self, method: &str, input: impl Output) -> Result<T, Error> {
        let reply = self.call_payload(method, input.into_payload()?)?;
        T::from_payload(&reply.content_type, &reply.body).map_err(|e| e.context("reply"))
    }

    /// As [`ActorRef::call`], for methods that do not speak JSON.
    ///
    /// # Errors
    ///
    /// As [`ActorRef::call`].
    pub fn call_payload(&self, method: &str, payload: Payload) -> Result<Payload, Error> {
        self.host
            .invoke(&self.entry, &self.key, self.method(method)?, &payload, None)
    }

    /// Calls a read-only method, as an HTTP GET would.
    ///
    /// # Errors
    ///
    /// As [`ActorRef::call`], and `not_read_only`.
    pub fn query<T: Input>(&self, method: &str, input: impl Output) -> Result<T, Error> {
        if !self.method(method)?.read_only {
            return Err(Error::new(
                Status::FailedPrecondition,
                "not_read_only",
                format!(
                    "{}.{method} is not declared read_only",
                    self.entry.spec.name
                ),
            ));
        }
        self.call(method, input)
    }

    fn method(&self, name: &str) -> Result<&'static MethodSpec, Error> {
        self.entry.spec.method(name).ok_or_else(|| {
            Error::new(
                Status::NotFound,
                "method_not_found",
                format!("{} has no method {name:?}", self.entry.spec.name),
            )
        })
    }

    /// The actor's name in full.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// How often the stored state was written; 0 for never.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.host.row(&self.key).version
    }

    /// The stored keys, in ascending byte order.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.host.row(&self.key).entries.into_keys().collect()
    }

    /// The stored keys with JSON values, as one object.
    #[must_use]
    pub fn state_json(&self) -> String {
        let text = overlay::object(&self.host.row(&self.key).entries);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The stored value of a key.
    ///
    /// # Errors
    ///
    /// `bad_json`: the value is not a `T`.
    pub fn get<T: FromJson>(&self, key: &str) -> Result<Option<T>, Error> {
        self.get_bytes(key).map(|v| T::from_json(&v)).transpose()
    }

    /// The stored bytes of a key, whatever their format.
    #[must_use]
    pub fn get_bytes(&self, key: &str) -> Option<Vec<u8>> {
        let row = self.host.row(&self.key);
        row.entries.get(key).map(|value| value.bytes.clone())
    }

    /// Replaces the stored state by the members of a JSON object, as if another
    /// module had written them under `schema`.
    ///
    /// # Panics
    ///
    /// `object` is not a JSON object, or has a key that the state cannot have.
    pub fn set_state(&self, schema: u32, object: &str) {
        let members = json::members(object.as_bytes()).expect("a JSON object");
        let entries = members.into_iter().map(|(key, value)| {
            assert!(overlay::valid_key(&key), "invalid state key {key:?}");
            (key.into_owned(), Value::json(value))
        });
        self.host.put(&self.key, schema, entries.collect());
    }

    /// Throws away what a host has of the actor in memory, its timers among it, as one
    /// does with an actor that is idle or moves, and one that ends with all of them.
    /// Stored state and reminders stay. The hook `activated` runs before the actor's next turn,
    /// and the hook `leaving` does not run: [`ActorRef::leave`].
    pub fn deactivate(&self) {
        self.host.lose_timers(&self.key);
        self.host.end_family(&self.key);
        self.host.0.awake.borrow_mut().remove(&self.key);
        self.host.drop_memory();
    }

    /// Has the actor's host be lost for the actors that watch it with
    /// [`Ref::watch_host`](crate::Ref::watch_host): [`Host::deliver`] runs their methods. The
    /// actor itself notices nothing.
    pub fn disconnect(&self) {
        self.host.end_watches(DISCONNECTED, |w| w.of == self.key);
    }

    /// Has the actor move to another host: its timers end, and its watches as well, which
    /// [`Host::deliver`] tells it.
    pub fn move_away(&self) {
        self.host.end_watches(MOVED, |w| w.by == self.key);
        self.deactivate();
    }

    /// Asks the actor to leave, as a server does that gives it to another one or stops: its hook
    /// `leaving` runs if there is one and the actor has a state in memory, and
    /// [`deactivate`](ActorRef::deactivate) follows.
    ///
    /// # Errors
    ///
    /// What the hook returned, which a server logs and no caller gets.
    ///
    /// # Panics
    ///
    /// The hook panics.
    pub fn leave(&self) -> Result<(), Error> {
        let hook = self.entry.spec.hooks.leaving;
        let awake = self.host.0.awake.borrow().contains(&self.key);
        let mut result = Ok(());
        if !hook.is_empty() && awake && self.version() > 0 {
            let asked = Asks::Leaving;
            result = self
                .host
                .ask(&self.key, hook, &Payload::default(), asked)
                .map(drop);
        }
        self.deactivate();
        result
    }

    /// Sends a message from outside, as a client does.
    ///
    /// # Panics
    ///
    /// The input has no JSON form, or the type has no method of that name that a message from
    /// outside can run.
    pub fn send(&self, method: &str, input: impl Output) {
        let input = input.into_payload().expect("an input with a JSON form");
        let private = self.method(method).map_or(false, |m| m.private);
        assert!(!private, "{method} takes no message from outside");
        if let Err(problem) = self.host.check_receiver(&self.key, method) {
            panic!("{problem}");
        }
        let letter = Letter::new(self.key.clone(), method, input);
        self.host.post(letter);
    }

    /// Removes the stored state, the reminders, timers, services, messages and subscriptions, as
    /// an administrator would.
    pub fn delete(&self) {
        self.host.remove_reminders(&self.key);
        self.host.0.society.delete(&self.key);
        self.host.end_family(&self.key);
        self.host.put(&self.key, 0, Entries::new());
        self.host.report_services();
    }
}
