//! Messages to other actors: `abi/SPEC.md` section 5.

use crate::address::Ref;
use crate::call::{Message, TypedMessage};
use crate::codec::{self, MessageFrame};
use crate::context::{direct, Context};
use crate::convert::Input;
use crate::error::{Error, Status};
use crate::life::refused;
use crate::reminder::{nanos, unix_nanos};
use std::time::{Duration, SystemTime};

/// The message cannot be; the error says what to change.
pub const INVALID_MESSAGE: &str = "invalid_message";
/// The receiver has as many messages as it may.
pub const INBOX_FULL: &str = "inbox_full";

impl Message {
    /// Delivers the message after `delay` instead of at once. Such a message has no order.
    pub fn delay(mut self, delay: Duration) -> Message {
        self.sending.delay = delay;
        self.sending.at = None;
        self
    }

    /// Delivers the message at a time instead of at once. Such a message has no order.
    pub fn at(mut self, time: SystemTime) -> Message {
        self.sending.at = Some(time);
        self.sending.delay = Duration::ZERO;
        self
    }

    /// Has a method of the sender get the message back if nobody consumes it: what it had
    /// sent, as input, with a cause of [`CauseKind::Undelivered`](crate::CauseKind).
    pub fn on_undelivered(mut self, method: impl Into<String>) -> Message {
        self.sending.undelivered = method.into();
        self
    }

    /// Sends the message on to another actor if nobody consumes it.
    pub fn forward(mut self, to: Ref) -> Message {
        self.sending.forward = Some(to);
        self
    }

    /// Sends the message for another actor: that one is `from` in the receiver's
    /// [`Cause`](crate::Cause), and gets what comes back; the sender is `by`.
    pub fn on_behalf(mut self, of: Ref) -> Message {
        self.sending.on_behalf = Some(of);
        self
    }

    /// Gives the message a number of the sender's own. The receiver finds it in its
    /// [`Cause`](crate::Cause), and so does the sender if the message comes back.
    pub fn cookie(mut self, number: u64) -> Message {
        self.sending.cookie = number;
        self
    }

    /// Puts a message that is told into one of the sender's ordering lanes: those of one sender,
    /// receiver and channel arrive in their order.
    pub fn channel(mut self, number: u8) -> Message {
        self.sending.channel = number;
        self
    }

    /// Sends a volatile message instead of calling: as fast as memory, and lost with a host
    /// that fails. It leaves when the turn has committed. Messages of one sender, receiver and
    /// [`channel`](Message::channel) arrive in their order, at most once, and are not repeated:
    /// one that no turn of the receiver consumes, or whose turn fails, comes back to the method
    /// of [`on_undelivered`](Message::on_undelivered). That is certain as long as both actors
    /// are on one host, and likely otherwise. It is not forwarded.
    ///
    /// # Errors
    ///
    /// As those of [`send`](Message::send): a turn tells at most 1024 messages of 4 MiB
    /// together.
    pub fn tell(mut self, ctx: &Context) -> Result<(), Error> {
        self.flags |= codec::FLAG_VOLATILE;
        self.send(ctx)
    }

    /// Sends a durable message instead of calling: a turn of the receiver runs the method,
    /// later and exactly once in effect. Like a change of the state it is part of the turn:
    /// when the turn fails, nothing was sent. Messages of one sender to one receiver arrive in
    /// the order in which they were sent, unless they have a delay.
    ///
    /// A turn of the receiver that fails is repeated, as its type's `messages` say. A message
    /// that nobody consumes goes to the actor of [`forward`](Message::forward), or becomes a
    /// dead letter and comes back to the method of
    /// [`on_undelivered`](Message::on_undelivered). The method may be private, and must not
    /// be read-only.
    ///
    /// ```
    /// # use greenroom::prelude::*;
    /// # use greenroom::Ref;
    /// # struct Order;
    /// # impl Order {
    /// fn pay(&mut self, ctx: &Context, cents: i64) -> Result<(), Error> {
    ///     let depot = Ref::new("Depot", "north");
    ///     depot.message("Ship", &cents).on_undelivered("NotShipped").send(ctx)
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`INVALID_MESSAGE`], [`INBOX_FULL`],
    /// [`SERVICE_NOT_FOUND`](crate::life::SERVICE_NOT_FOUND); `too_many`, `too_large`: a turn
    /// sends at most 256 messages of 1 MiB together; `read_only`; `not_ready`: the host cannot
    /// create messages now.
    pub fn send(self, ctx: &Context) -> Result<(), Error> {
        let doing = format!("send {} to {}", self.method, self.to);
        if let Some(e) = self.unfit {
            return Err(e.with_code("not_json").context(&doing));
        }
        let invalid = |problem: String| {
            Error::new(
                Status::InvalidArgument,
                INVALID_MESSAGE,
                format!("{doing}: {problem}"),
            )
        };
        let s = &self.sending;
        let nobody = Ref::new("", "");
        let forward = s.forward.as_ref().unwrap_or(&nobody);
        let on_behalf = s.on_behalf.as_ref().unwrap_or(&nobody);
        let (actor_type, id, service) = self.to.parts();
        let millis = (self.timeout.as_nanos() + 999_999) / 1_000_000;
        let frame = codec::encode_message(&MessageFrame {
            actor_type,
            id,
            method: &self.method,
            service,
            content_type: &self.input.content_type,
            payload: &self.input.body,
            flags: self.flags,
            limit_millis: u32::try_from(millis).unwrap_or(u32::MAX),
            due_unix_nano: unix_nanos("at", s.at).map_err(invalid)?,
            undelivered: &s.undelivered,
            cookie: s.cookie,
            channel: u32::from(s.channel),
            delay_nano: nanos("delay", s.delay).map_err(invalid)?,
            forward_type: &forward.actor_type,
            forward_id: &forward.id,
            on_behalf_type: &on_behalf.actor_type,
            on_behalf_id: &on_behalf.id,
        });
        direct!(ctx, send(&frame)).map_err(|code| refused(ctx, code, &doing, INVALID_MESSAGE))
    }
}

impl<R: Input> TypedMessage<R> {
    /// As [`Message::delay`].
    pub fn delay(self, delay: Duration) -> TypedMessage<R> {
        self.with(|m| m.delay(delay))
    }

    /// As [`Message::at`].
    pub fn at(self, time: SystemTime) -> TypedMessage<R> {
        self.with(|m| m.at(time))
    }

    /// As [`Message::on_undelivered`].
    pub fn on_undelivered(self, method: impl Into<String>) -> TypedMessage<R> {
        self.with(|m| m.on_undelivered(method))
    }

    /// As [`Message::forward`].
    pub fn forward(self, to: Ref) -> TypedMessage<R> {
        self.with(|m| m.forward(to))
    }

    /// As [`Message::on_behalf`].
    pub fn on_behalf(self, of: Ref) -> TypedMessage<R> {
        self.with(|m| m.on_behalf(of))
    }

    /// As [`Message::cookie`].
    pub fn cookie(self, number: u64) -> TypedMessage<R> {
        self.with(|m| m.cookie(number))
    }

    /// As [`Message::channel`].
    pub fn channel(self, number: u8) -> TypedMessage<R> {
        self.with(|m| m.channel(number))
    }

    /// As [`Message::tell`].
    ///
    /// # Errors
    ///
    /// As those of [`Message::tell`].
    pub fn tell(self, ctx: &Context) -> Result<(), Error> {
        self.into_message().tell(ctx)
    }

    /// As [`Message::send`].
    ///
    /// # Errors
    ///
    /// As those of [`Message::send`].
    pub fn send(self, ctx: &Context) -> Result<(), Error> {
        self.into_message().send(ctx)
    }
}
