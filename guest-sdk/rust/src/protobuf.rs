//! Services of Protobuf that actor types serve.
//!
//! `greenroom generate --lang rust` writes a module with the messages of a service, the trait
//! that an actor's struct implements, and a struct of calls by other actors. That module uses
//! the crate `prost` for Protobuf's binary form, which this crate does not depend on, and what
//! stands here.
//!
//! ```ignore
//! mod walletv1; // generated
//!
//! #[greenroom::actor(service = walletv1::WalletService)]
//! impl walletv1::WalletServiceActor for Wallet {
//!     fn deposit(&mut self, ctx: &Context, request: DepositRequest) -> Result<Balance, Error> { … }
//!     fn get_balance(&self, ctx: &ReadContext, _: GetBalanceRequest) -> Result<Balance, Error> { … }
//! }
//! ```
//!
//! A message is an [`Input`](crate::Input) and an [`Output`](crate::Output), in methods without
//! an rpc as well. Its payload has the type [`CONTENT_TYPE`]; other payloads fail with the code
//! [`BAD_PROTOBUF`]. The server makes messages of the JSON of callers from outside.

use crate::actor::{checked, of_type, run, Argument, Method, Outcome};
use crate::context::Context;
use crate::error::Error;
use crate::payload::{Payload, JSON};
use std::fmt;

#[doc(hidden)]
pub use crate::call::typed as message;
#[doc(hidden)]
pub use crate::spec::{MethodSpec, Protobuf};

/// The content type of Protobuf's binary form.
pub const CONTENT_TYPE: &str = "application/protobuf";

/// The code of the error of a payload that is not the binary form of the message that is needed.
pub const BAD_PROTOBUF: &str = "bad_protobuf";

/// A service whose rpcs are methods of the actor type `A`. `greenroom generate` writes a struct
/// that implements it for each `A` with the trait of the service's methods; it is not to be
/// implemented by hand.
pub trait Service<A> {
    /// What the manifest says of the service.
    #[doc(hidden)]
    const PROTOBUF: Protobuf;

    /// Runs an rpc.
    #[doc(hidden)]
    fn call(rpc: Rpc<'_, A>) -> Called;
}

/// What an rpc has replied; `None` if there is none of the name.
#[doc(hidden)]
pub type Called = Option<Result<Payload, Error>>;

/// A call of an rpc of an actor of the type `A`.
#[doc(hidden)]
pub struct Rpc<'a, A> {
    pub actor: &'a mut A,
    pub ctx: &'a Context,
    pub method: &'a str,
    pub content_type: &'a str,
    pub payload: &'a [u8],
}

impl<A> Rpc<'_, A> {
    /// Runs the function of the rpc.
    pub fn run<Form, M>(self, function: M) -> Called
    where
        M: Method<A, Form>,
        M::Argument: Argument<M>,
        M::Returned: Outcome<M>,
    {
        let function = checked(of_type::<A>(), function);
        Some(run(
            function,
            self.actor,
            self.ctx,
            self.content_type,
            self.payload,
        ))
    }
}

/// Reads a message, whose full name is `name`, with a function of `prost`. A payload without
/// a byte is an empty message, whatever its type.
#[doc(hidden)]
pub fn read<T, E: fmt::Display>(
    name: &str,
    content_type: &str,
    body: &[u8],
    decode: impl FnOnce(&[u8]) -> Result<T, E>,
) -> Result<T, Error> {
    let problem = if body.is_empty() || content_type == CONTENT_TYPE {
        match decode(body) {
            Ok(message) => return Ok(message),
            Err(e) => e.to_string(),
        }
    } else {
        let is = if content_type.is_empty() {
            JSON
        } else {
            content_type
        };
        format!("it is {is}, where {CONTENT_TYPE} is needed; clients call the rpc of the method's service, which takes JSON as well")
    };
    Err(Error::invalid_argument(
        BAD_PROTOBUF,
        format!("the payload is no {name}: {problem}"),
    ))
}

/// The payload of a message.
#[doc(hidden)]
#[must_use]
pub fn payload(body: Vec<u8>) -> Payload {
    Payload::new(CONTENT_TYPE, body)
}

/// Makes messages, whose full names follow them, inputs and outputs by the codec of `prost`.
#[doc(hidden)]
#[macro_export]
macro_rules! __protobuf_messages {
    ($($message:path = $name:literal,)+) => {$(
        impl $crate::Input for $message {
            fn from_payload(
                content_type: &str,
                body: &[u8],
            ) -> ::core::result::Result<Self, $crate::Error> {
                $crate::protobuf::read($name, content_type, body, |body| {
                    <Self as ::prost::Message>::decode(body)
                })
            }
        }

        impl $crate::Output for $message {
            fn into_payload(self) -> ::core::result::Result<$crate::Payload, $crate::Error> {
                ::core::result::Result::Ok($crate::protobuf::payload(
                    ::prost::Message::encode_to_vec(&self),
                ))
            }
        }
    )+};
}
