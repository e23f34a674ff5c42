//! Events of an actor, and subscriptions to those of others: `abi/SPEC.md` section 5.

use crate::address::Ref;
use crate::cause::CauseKind;
use crate::context::{direct, Context};
use crate::convert::Output;
use crate::error::Error;
use crate::life::refused;
use crate::reminder::doing;

/// The event cannot be; the error says what to change.
pub const INVALID_EVENT: &str = "invalid_event";
/// The subscription cannot be; the error says what to change.
pub const INVALID_SUBSCRIPTION: &str = "invalid_subscription";
/// Events were not kept until they could be delivered to a subscriber: `failed` of a
/// [`Cause`](crate::Cause) of the kind [`Event`](crate::CauseKind::Event).
pub const GONE: &str = "position_gone";
/// The publisher has passed away: `failed` of a [`Cause`](crate::Cause) of the kind
/// [`Event`](crate::CauseKind::Event).
pub const PASSED_AWAY: &str = "passed_away";

/// Whether the turn reports that a publisher has passed away.
pub(crate) fn is_end_of_publisher(ctx: &Context) -> bool {
    let cause = ctx.cause();
    cause.kind == CauseKind::Event && cause.failed == PASSED_AWAY
}

impl Context {
    /// Publishes an event of the actor. Like a change of the state it is part of the turn: it
    /// is published when the turn commits, and subscribers get the events of an actor in the
    /// order of its turns, each once. Other actors subscribe with
    /// [`subscribe`](Context::subscribe), clients with `ActorService.Subscribe`, browsers with
    /// server-sent events.
    ///
    /// # Errors
    ///
    /// [`INVALID_EVENT`]: the name has more than 128 bytes or begins with `greenroom.`, or the event
    /// has more than 65536 bytes;
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

    /// Has the actor subscribe to the events of another one. A method of the actor runs for each
    /// event that the other actor publishes from now on, one after the other in their order,
    /// with the event as input. Its [`Cause`](crate::Cause) has the kind
    /// [`Event`](crate::CauseKind::Event), the other actor in `from`, and the event's name. An
    /// event takes effect once: the turn's commit moves the subscription past it. If the turn
    /// fails, the method runs again later, and later events wait, for as long as the event is
    /// kept. If events are gone, the method runs once without input and with [`GONE`] in
    /// `failed`, and the subscription goes on behind them. When the other actor passes away and has
    /// published events, the method runs once without input and with [`PASSED_AWAY`] in `failed`,
    /// after the last event of that life; the subscription goes on with the events of the next one.
    /// Have the method take an `Option`, which is `None` in both cases. A method that needs an input
    /// is not run for the end of a life; without the events that are gone it fails like any other,
    /// and later events wait.
    ///
    /// Like a change of the state, a subscription is part of the turn. Subscribing again changes
    /// the method alone. A subscription ends with [`unsubscribe`](Context::unsubscribe), with
    /// [`pass_away`](Context::pass_away), and with the actor.
    ///
    /// ```
    /// # use greenroom::prelude::*;
    /// # use greenroom::Ref;
    /// # struct Shelf { paid: u32 }
    /// # impl Shelf {
    /// fn follow(&mut self, ctx: &Context, order: String) -> Result<(), Error> {
    ///     ctx.subscribe(&Ref::new("Order", order), "OnOrder")
    /// }
    ///
    /// fn on_order(&mut self, ctx: &Context, _cents: Option<i64>) -> Result<(), Error> {
    ///     if ctx.cause().name == "paid" {
    ///         self.paid += 1;
    ///     }
    ///     Ok(())
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`INVALID_SUBSCRIPTION`]: the type has no such method, or a read-only one, or the app has
    /// no type of the other actor's; `too_many`: an
    /// actor subscribes to at most 100 others; `not_ready`: the host cannot say now; `no_state`:
    /// the type is stateless; `read_only`; [`LIFE_OVER`](crate::life::LIFE_OVER).
    pub fn subscribe(&self, to: &Ref, method: &str) -> Result<(), Error> {
        let subscription = (to.actor_type.as_str(), to.id.as_str(), method);
        direct!(self, event_subscribe(subscription)).map_err(|code| {
            let doing = format!("subscribe to {to}");
            refused(self, code, &doing, INVALID_SUBSCRIPTION)
        })
    }

    /// Ends the subscription that [`subscribe`](Context::subscribe) began, and says whether there
    /// was one. No event is delivered after the turn.
    ///
    /// # Errors
    ///
    /// As those of [`subscribe`](Context::subscribe).
    pub fn unsubscribe(&self, to: &Ref) -> Result<bool, Error> {
        let publisher = (to.actor_type.as_str(), to.id.as_str());
        direct!(self, event_unsubscribe(publisher)).map_err(|code| {
            let doing = format!("unsubscribe from {to}");
            refused(self, code, &doing, INVALID_SUBSCRIPTION)
        })
    }
}
