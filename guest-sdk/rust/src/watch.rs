//! Watching the hosts of other actors: `abi/SPEC.md` section 5.

use crate::address::Ref;
use crate::context::{direct, Context};
use crate::error::{Error, Status};
use crate::life::refused;

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
    /// [`INVALID_WATCH`]; `too_many`: an actor watches for at most 100 others; `not_ready`: it is
    /// not known now which host holds this actor; `read_only`;
    /// [`LIFE_OVER`](crate::life::LIFE_OVER).
    pub fn watch_host(&self, ctx: &Context, method: &str) -> Result<(), Error> {
        if method.is_empty() {
            let message = format!("watch the host of {self}: it names no method");
            return Err(Error::new(Status::InvalidArgument, INVALID_WATCH, message));
        }
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
