//! Calls of other actors: `abi/SPEC.md` section 5.

use crate::actor::Actor;
use crate::address::Ref;
use crate::codec::{self, MessageFrame};
use crate::context::{direct, Context, ReadContext};
use crate::convert::{Input, Output, Payload, ToJson};
use crate::error::{Error, Status};
use crate::host::Code;
use crate::turn;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

/// The callee cannot be in one transaction with the caller. It did not run.
pub const NOT_ATOMIC: &str = "not_atomic";
/// A turn of the callee waits for this call. The called turn did not run.
pub const NOT_REENTRANT: &str = "not_reentrant";
/// The callee or its host has no room for the call. It did not run.
pub const BUSY: &str = "busy";
/// The call did not end in time. What it did was taken back.
pub const DEADLINE_EXCEEDED: &str = "deadline_exceeded";
/// Another server has not answered in time. The callee perhaps ran, or may run yet, and is
/// committed then.
pub const TIMEOUT: &str = "timeout";
/// The connection to another server was lost. The callee perhaps ran, or may run yet, and is
/// committed then.
pub const UNAVAILABLE: &str = "unavailable";
/// Nothing serves the callee's type. It did not run.
pub const TYPE_NOT_FOUND: &str = "type_not_found";
/// The callee has no such method. It did not run.
pub const METHOD_NOT_FOUND: &str = "method_not_found";
/// More than 32 turns call each other. The callee did not run.
pub const TOO_DEEP: &str = "too_deep";
/// The transaction has more than 64 actors. The callee did not run.
pub const TOO_MANY: &str = "too_many";
/// The type, ID or method is none. The callee did not run.
pub const INVALID_CALL: &str = "invalid_call";
/// The input is larger than the callee's type takes. The callee did not run.
pub const PAYLOAD_TOO_LARGE: &str = "payload_too_large";
/// The callee crashed. What it did was taken back.
pub const TRAP: &str = "trap";
/// The callee used up its fuel, its state became too large, or its host failed. What it did
/// was taken back.
pub const FAILED: &str = "failed";

impl Error {
    /// Whether it is of a call after which the callee may have run, or may run yet, and is
    /// committed then: the callee is at another server, whose answer was lost. After any
    /// other error of a call nothing of it remains, except after `bad_reply`: see
    /// [`Message::call`](crate::call::Message::call).
    #[must_use]
    pub fn perhaps_ran(&self) -> bool {
        matches!(self.code(), TIMEOUT | UNAVAILABLE)
    }
}

impl Ref {
    /// The actor of the type `A` with this ID.
    #[must_use]
    pub fn of<A: Actor>(id: impl Into<String>) -> Ref {
        Ref::new(A::SPEC.name, id)
    }

    /// A call of a method of this actor, to be made by [`Message::call`] or
    /// [`Message::query`], or a message to it, to be sent by [`Message::send`]. `&()` is no
    /// input.
    pub fn message<T: ToJson + ?Sized>(&self, method: &str, input: &T) -> Message {
        match input.to_json() {
            Ok(body) if body == b"null" => self.message_payload(method, Payload::default()),
            Ok(body) => self.message_payload(method, Payload::new("", body)),
            Err(e) => Message {
                unfit: Some(e),
                ..self.message_payload(method, Payload::default())
            },
        }
    }

    /// As [`message`](Ref::message), for a method that does not speak JSON.
    pub fn message_payload(&self, method: &str, input: Payload) -> Message {
        Message {
            to: self.clone(),
            method: method.to_string(),
            input,
            timeout: Duration::ZERO,
            flags: 0,
            sending: Sending::default(),
            unfit: None,
        }
    }
}

/// What one actor asks of another; from [`Ref::message`].
///
/// ```
/// # use greenroom::prelude::*;
/// # use greenroom::{Ref, testing::Host};
/// # greenroom::record! { #[derive(Default)] struct Account { balance: i64 } }
/// # greenroom::record! { #[derive(Default)] pub struct Order { to: String, amount: i64 } }
/// # impl Account {
/// fn transfer(&mut self, ctx: &Context, order: Order) -> Result<i64, Error> {
///     self.balance -= order.amount;
///     let other = Ref::of::<Account>(order.to);
///     let _theirs: i64 = other.message("Deposit", &order.amount).call(ctx, self)?;
///     Ok(self.balance)
/// }
/// # fn deposit(&mut self, _: &Context, amount: i64) -> Result<i64, Error> {
/// #     self.balance += amount;
/// #     Ok(self.balance)
/// # }
/// # }
/// # greenroom::actors! { Account { methods: { "Transfer" => transfer, "Deposit" => deposit } } }
/// # let host = Host::of(&GREENROOM_MODULE);
/// # let order = Order { to: "bob".to_string(), amount: 3 };
/// # assert_eq!(host.actor_named("Account", "ann").call("Transfer", order), Ok(-3));
/// # assert_eq!(host.actor_named("Account", "bob").call("Deposit", 0), Ok(3));
/// ```
///
/// The turn and all that it calls are one transaction: what they change is committed
/// together, when the outermost turn is, or not at all.
#[derive(Clone, Debug)]
#[must_use = "a message does nothing until it is called or sent"]
pub struct Message {
    pub(crate) to: Ref,
    pub(crate) method: String,
    pub(crate) input: Payload,
    pub(crate) timeout: Duration,
    pub(crate) flags: u32,
    pub(crate) sending: Sending,
    /// Why the input is none.
    pub(crate) unfit: Option<Error>,
}

/// What a message that is sent has beside a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sending {
    pub(crate) at: Option<SystemTime>,
    pub(crate) delay: Duration,
    pub(crate) undelivered: String,
    pub(crate) cookie: u64,
    pub(crate) channel: u8,
    pub(crate) forward: Option<Ref>,
    pub(crate) on_behalf: Option<Ref>,
}

impl Message {
    /// Bounds how long the call may take, with the wait until the callee is free. Rounded
    /// up to milliseconds; zero: as long as the turn.
    pub fn timeout(mut self, limit: Duration) -> Message {
        self.timeout = limit;
        self
    }

    /// Makes the call part of the caller's transaction, or fails it before it has run, with
    /// [`NOT_ATOMIC`].
    pub fn atomic(mut self) -> Message {
        self.flags |= codec::FLAG_ATOMIC;
        self
    }

    /// Runs the method and returns its reply. `actor` is the `self` of the method that
    /// calls: if a method of its type is reentrant, the callee may call it back, and finds
    /// there what `actor` is now; `actor` then is what it has become.
    ///
    /// # Errors
    ///
    /// The callee's own error, or one with a code of [this module](crate::call). What the
    /// callee has changed is taken back then, and the caller may go on. A method that returns
    /// the error takes back everything. `bad_reply`: the reply is no `R`; what the callee has
    /// changed stays.
    pub fn call<R: Input>(self, ctx: &Context, actor: &mut impl Actor) -> Result<R, Error> {
        self.call_committed(ctx, actor).0
    }

    /// As [`call`](Message::call), and returns beside the result whether the called turn was
    /// committed on its own, at another server. Such a turn is not taken back if the caller's
    /// turn fails. The result can be an error all the same: that of a reply that could not be
    /// read.
    pub fn call_committed<R: Input>(
        self,
        ctx: &Context,
        actor: &mut impl Actor,
    ) -> (Result<R, Error>, bool) {
        let mut own = false;
        let result = turn::calling(ctx, actor, || self.round_trip(ctx, &mut own));
        (result, own)
    }

    /// As [`call`](Message::call), from a read-only method, which may call read-only ones.
    ///
    /// # Errors
    ///
    /// As those of [`call`](Message::call), and `read_only`: the callee's method is not
    /// read-only. In a turn that may change the actor it is `invalid_call`.
    pub fn query<R: Input>(self, ctx: &ReadContext) -> Result<R, Error> {
        if !ctx.read_only() {
            return Err(Error::invalid_argument(
                INVALID_CALL,
                "`query` is for read-only methods; this one may change its actor: take &mut self, and write `call(ctx, self)`",
            ));
        }
        self.round_trip(ctx, &mut false)
    }

    fn round_trip<R: Input>(self, ctx: &ReadContext, committed: &mut bool) -> Result<R, Error> {
        if let Some(e) = self.unfit {
            return Err(e
                .with_code("not_json")
                .context(&format!("call {}.{}", self.to.actor_type, self.method)));
        }
        let millis = (self.timeout.as_nanos() + 999_999) / 1_000_000;
        let (actor_type, id, service) = self.to.parts();
        let frame = codec::encode_message(&MessageFrame {
            actor_type,
            id,
            service,
            method: &self.method,
            content_type: &self.input.content_type,
            payload: &self.input.body,
            flags: self.flags,
            limit_millis: u32::try_from(millis).unwrap_or(u32::MAX),
            ..MessageFrame::default()
        });
        let bytes = match direct!(ctx, call(&frame)) {
            Ok(bytes) => bytes,
            Err(Code::INVALID) => {
                return Err(Error::invalid_argument(INVALID_CALL, "a malformed call"))
            }
            Err(code) => {
                return Err(code.error(&format!("call {}.{}", self.to.actor_type, self.method)))
            }
        };
        let result = codec::decode_result(&bytes)
            .map_err(|e| Error::new(Status::Internal, "bad_frame", e.to_string()))?;
        *committed = result.flags & codec::FLAG_COMMITTED != 0;
        if result.error.status != 0 {
            return Err(Error::from_frame(&result.error));
        }
        R::from_payload(result.content_type, result.payload).map_err(|e| {
            Error::new(
                Status::Internal,
                "bad_reply",
                format!(
                    "the reply of {}.{}, {} bytes: {}",
                    self.to.actor_type,
                    self.method,
                    result.payload.len(),
                    e.message()
                ),
            )
        })
    }
}

/// A [`Message`] whose reply is an `R`; from the struct that the option `reference` of the
/// attribute `actor` makes.
#[derive(Clone, Debug)]
#[must_use = "a message does nothing until it is called or sent"]
pub struct TypedMessage<R> {
    message: Message,
    reply: PhantomData<fn() -> R>,
}

impl<R> TypedMessage<R> {
    pub(crate) fn with(self, change: impl FnOnce(Message) -> Message) -> TypedMessage<R> {
        TypedMessage {
            message: change(self.message),
            reply: self.reply,
        }
    }

    pub(crate) fn into_message(self) -> Message {
        self.message
    }
}

impl<R: Input> TypedMessage<R> {
    /// As [`Message::timeout`].
    pub fn timeout(self, limit: Duration) -> TypedMessage<R> {
        self.with(|m| m.timeout(limit))
    }

    /// As [`Message::atomic`].
    pub fn atomic(self) -> TypedMessage<R> {
        self.with(Message::atomic)
    }

    /// As [`Message::call`].
    ///
    /// # Errors
    ///
    /// As those of [`Message::call`].
    pub fn call(self, ctx: &Context, actor: &mut impl Actor) -> Result<R, Error> {
        self.message.call(ctx, actor)
    }

    /// As [`Message::call_committed`].
    pub fn call_committed(self, ctx: &Context, actor: &mut impl Actor) -> (Result<R, Error>, bool) {
        self.message.call_committed(ctx, actor)
    }

    /// As [`Message::query`].
    ///
    /// # Errors
    ///
    /// As those of [`Message::query`].
    pub fn query(self, ctx: &ReadContext) -> Result<R, Error> {
        self.message.query(ctx)
    }
}

/// For the attribute alone.
#[doc(hidden)]
pub fn typed<R>(to: &Ref, method: &str, input: impl Output) -> TypedMessage<R> {
    let mut message = to.message_payload(method, Payload::default());
    match input.into_payload() {
        Ok(input) => message.input = input,
        Err(e) => message.unfit = Some(e),
    }
    TypedMessage {
        message,
        reply: PhantomData,
    }
}
