//! Watching the hosts of other actors, and services: `abi/SPEC.md` section 5.

use crate::address::Ref;
use crate::context::{direct, Context};
use crate::error::{Error, Status};
use crate::life::refused;
use crate::reminder::doing;

/// The session to the watched host broke, or that host is gone.
pub const DISCONNECTED: &str = "disconnected";
/// The actor that watched has moved to another host, and its watch did not.
pub const MOVED: &str = "moved";
/// The watch cannot be; the error says what to change.
pub const INVALID_WATCH: &str = "invalid_watch";

impl Ref {
    /// Has the turn's actor watch the host that holds this actor at this moment. A method of the
    /// turn's actor runs once, without input, when the session to that host has broken or the
    /// host is gone ([`DISCONNECTED`]), or when the watching actor has moved to another host,
    /// which ends the watch as well ([`MOVED`]). Its [`Cause`](crate::Cause) has the kind
    /// [`Disconnected`](crate::CauseKind::Disconnected), this actor in `from`, and one of
    /// these two in `failed`. If messages that the turn tells this actor from here on are lost
    /// with that host, the method runs.
    ///
    /// A watch is kept in memory alone. It begins with the end of the turn, and none begins if
    /// the turn fails. It ends unsaid with [`unwatch_host`](Ref::unwatch_host), with
    /// [`pass_away`](Context::pass_away), and with the host of the actor that watches. Watching
    /// for the same actor again begins anew.
    ///
    /// # Errors
    ///
    /// [`INVALID_WATCH`]; `too_many`: an actor has at most 100 watches; `not_ready`: it is
    /// not known now which host holds this actor; `read_only`;
    /// [`LIFE_OVER`](crate::life::LIFE_OVER).
    pub fn watch_host(&self, ctx: &Context, method: &str) -> Result<(), Error> {
        named(method, &format!("watch the host of {self}"))?;
        self.watch(ctx, method).map(drop)
    }

    /// Ends the watch that [`watch_host`](Ref::watch_host) began for this actor, and says whether
    /// there was one.
    ///
    /// # Errors
    ///
    /// As those of [`watch_host`](Ref::watch_host).
    pub fn unwatch_host(&self, ctx: &Context) -> Result<bool, Error> {
        self.watch(ctx, "")
    }

    fn watch(&self, ctx: &Context, method: &str) -> Result<bool, Error> {
        let watch = (self.actor_type.as_str(), self.id.as_str(), method);
        direct!(ctx, host_watch(watch)).map_err(|code| {
            let doing = format!("watch the host of {self}");
            refused(ctx, code, &doing, INVALID_WATCH)
        })
    }
}

crate::record! {
    /// The argument of a method that [`Context::watch_service`] names: the actors that stand for the
    /// watched services, in byte order of the names, 256 at most.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Services {
        /// The actors.
        pub services: Vec<NamedActor>,
        /// Whether the group has other services, which come later and are not watched.
        pub more: bool,
    }

    /// An actor that stands for a service.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct NamedActor {
        /// The name of the service.
        pub name: String,
        /// The type of the actor.
        pub r#type: String,
        /// The ID of the actor.
        pub id: String,
    }
}

impl NamedActor {
    /// The address of the actor.
    #[must_use]
    pub fn actor(&self) -> Ref {
        Ref::new(&self.r#type, &self.id)
    }
}

impl Context {
    /// Has the actor watch who stands for a service ([`claim`](Context::claim)), or, if the name
    /// ends in a slash, for any service whose name begins with it. A method of the actor runs at
    /// once and whenever that has changed, with [`Services`] as its argument: the whole list,
    /// which replaces the one before. Its [`Cause`](crate::Cause) has the kind
    /// [`Services`](crate::CauseKind::Services) and the watched name in `name`. The first list
    /// has what the turn has claimed, and a change is seen within about a second. While the
    /// method waits or runs there is no other list for the actor, and then the newest: it may
    /// miss what was there for a moment.
    ///
    /// When the actor has moved to another host, which ends the watch, the method runs once
    /// more, with an empty list and [`MOVED`] in `failed` of its cause: it may watch anew.
    ///
    /// A watch is kept in memory alone. It begins with the end of the turn, and none begins if
    /// the turn fails. It ends unsaid with [`unwatch_service`](Context::unwatch_service), with
    /// [`pass_away`](Context::pass_away), and with the host of the actor. Watching the same name
    /// again changes the method alone.
    ///
    /// # Errors
    ///
    /// [`INVALID_WATCH`]; `too_many`: an actor has at most 100 watches; `not_ready`: the host
    /// follows as many names as it can; `read_only`; [`LIFE_OVER`](crate::life::LIFE_OVER).
    pub fn watch_service(&self, name: &str, method: &str) -> Result<(), Error> {
        named(method, &doing("watch", "service", name))?;
        self.service_watch(name, method).map(drop)
    }

    /// Ends the watch that [`watch_service`](Context::watch_service) began for a name, and says
    /// whether there was one. A list that is on its way may still come.
    ///
    /// # Errors
    ///
    /// As those of [`watch_service`](Context::watch_service).
    pub fn unwatch_service(&self, name: &str) -> Result<bool, Error> {
        self.service_watch(name, "")
    }

    fn service_watch(&self, name: &str, method: &str) -> Result<bool, Error> {
        direct!(self, service_watch((name, method))).map_err(|code| {
            let doing = doing("watch", "service", name);
            refused(self, code, &doing, INVALID_WATCH)
        })
    }
}

/// Refuses a watch without a method.
fn named(method: &str, doing: &str) -> Result<(), Error> {
    if method.is_empty() {
        let message = format!("{doing}: it names no method");
        return Err(Error::new(Status::InvalidArgument, INVALID_WATCH, message));
    }
    Ok(())
}
