//! Events of an actor: `abi/SPEC.md` section 5.

use crate::context::{direct, Context};
use crate::convert::Output;
use crate::error::Error;
use crate::life::refused;
use crate::reminder::doing;

/// The event cannot be; the error says what to change.
pub const INVALID_EVENT: &str = "invalid_event";

impl Context {
    /// Publishes an event of the actor. Like a change of the state it is part of the turn: it
    /// is published when the turn commits, and subscribers get the events of an actor in the
    /// order of its turns, each once. Clients subscribe with `ActorService.Subscribe`, browsers
    /// with server-sent events.
    ///
    /// # Errors
    ///
    /// [`INVALID_EVENT`]: the name has more than 128 bytes, or the event more than 65536;
    /// `too_many`, `too_large`: a turn publishes at most 256 events of 1 MiB together;
    /// `no_state`: the type is stateless; `read_only`.
    pub fn publish(&self, name: &str, event: impl Output) -> Result<(), Error> {
        let doing = doing("publish", "event", name);
        let payload = event
            .into_payload()
            .map_err(|e| e.with_code("not_json").context(&doing))?;
        direct!(self, publish((name, &payload)))
            .map_err(|code| refused(self, code, &doing, INVALID_EVENT))
    }
}
