//! Write durable actors for [Greenroom](https://github.com/greenroom-run/greenroom)
//! in Rust.
//!
//! An actor is a struct, and a few functions on it. It is loaded before a call
//! and saved after it; a call either happens as a whole or leaves no trace; and
//! no two calls of one actor run at the same time.
//!
#![cfg_attr(all(feature = "serde", feature = "macros"), doc = "```")]
#![cfg_attr(not(all(feature = "serde", feature = "macros")), doc = "```ignore")]
//! use greenroom::prelude::*;
//!
//! #[derive(Default, Serialize, Deserialize)]
//! struct Account {
//!     balance: i64,
//! }
//!
//! #[greenroom::actor]
//! impl Account {
//!     fn deposit(&mut self, _: &Context, amount: i64) -> Result<i64, Error> {
//!         ensure!(amount > 0, Error::invalid_argument("bad_amount", "deposit more than nothing"));
//!         self.balance += amount;
//!         Ok(self.balance)
//!     }
//!
//!     fn balance(&self, _: &ReadContext) -> Result<i64, Error> {
//!         Ok(self.balance)
//!     }
//! }
//!
//! greenroom::module! { Account }
//!
//! // A test, in plain Rust:
//! # fn main() -> Result<(), Error> {
//! let host = greenroom::testing::Host::new();
//! let alice = host.actor::<Account>("alice");
//! assert_eq!(alice.call("Deposit", 30), Ok(30));
//! assert_eq!(alice.call::<i64>("Deposit", -1).unwrap_err().code(), "bad_amount");
//! assert_eq!(alice.query("Balance", ()), Ok(30));
//! # Ok(())
//! # }
//! ```
//!
//! - The attribute `actor` and [`module!`], or [`actors!`] alone, say which structs are
//!   actors, and how they are run.
//! - [`Method`] is what a method looks like.
//! - [`Context`] and [`ReadContext`] are the turn: the actor's ID, its keys, time,
//!   randomness, the log.
//! - [`Ref`] names another actor, whose methods [`Message`] calls, or runs later, and whose
//!   host it watches; [`Context::watch_service`] watches who stands for services.
//! - [`Context::publish`] publishes an event, and [`Context::subscribe`] follows those of
//!   another actor.
//! - [`Context::spawn`] makes an actor, [`Context::pass_away`] ends one, and
//!   [`Context::become_`] changes which methods one accepts.
//! - [`Context::spawn_child`] makes a helper that is in memory alone.
//! - [`Reminder`] calls a method of the actor at a later time; [`Timer`] does so while the
//!   actor is in memory.
//! - [`Error`] is a failure that reaches the caller as it is.
//! - [`protobuf`] is what an actor type that serves a service of Protobuf builds on.
//! - [`testing`] runs actors in `cargo test`, without Wasm.
//! - [`convert`] is what arguments, results and states can be; [`record!`] makes
//!   structs of that kind without serde.
//!
//! # Features
//!
//! - `serde` (default): every serde type converts.
//! - `macros` (default): the attribute `actor`.
//!
//! Without them the crate has no dependencies, compiles with Rust 1.63 and newer, and
//! a small guest is half as large.
//!
//! # Rules for a guest
//!
//! Nothing but the state outlives a call: a `static` may be gone, or belong to
//! another actor's call. There are no threads, files or sockets, and
//! `SystemTime::now` panics: the time is [`ReadContext::now`]. A panic ends the call,
//! its text goes to the actor's log, and the caller gets an `internal` error; use
//! [`Error`] for what callers should understand. A map in the state should be a
//! `BTreeMap`: a `HashMap` is written in another order each time, and so counts
//! as changed.

#![deny(missing_docs)]
#![warn(rust_2018_idioms, unreachable_pub)]
// Of clippy's pedantic lints, those about what a user of the crate meets.
#![warn(
    clippy::manual_string_new,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use
)]

// The modules in layers, from the lowest: a file uses only what stands before it here.
//
//   text, codec, payload, address, cause the frames of the ABI, and what they carry
//   error, json, convert, record         values as JSON, and failures
//   host, wasm, spec, context            the host's functions, a type's manifest, a turn
//   actor, turn                          what a method is, and how one runs
//   state, capability, call, reminder, timer, life, event, watch, message
//                                        what a context gives; a call has what a message adds
//   protobuf                             services of Protobuf
//   exports, testing, macros             who runs turns: Wasm, the test kit; and their front
//
// In testing: zone, schedule, timers, reminders, overlay, outside, messages, living, watches,
// subscriptions, functions, chain, mod, actor_ref.

mod actor;
mod address;
pub mod call;
mod capability;
mod cause;
mod child;
#[doc(hidden)]
pub mod codec;
mod context;
pub mod convert;
mod error;
pub mod event;
#[cfg(target_arch = "wasm32")]
mod exports;
mod host;
mod json;
pub mod life;
mod macros;
pub mod message;
mod payload;
pub mod protobuf;
#[allow(missing_docs, unreachable_pub)]
mod record;
mod reminder;
#[doc(hidden)]
pub mod spec;
mod state;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod text;
mod timer;
mod turn;
#[cfg(target_arch = "wasm32")]
mod wasm;
pub mod watch;

pub use actor::{Actor, Method, State};
pub use address::Ref;
pub use call::{Message, TypedMessage};
pub use capability::{Http, Request, Response};
pub use cause::{Cause, CauseKind};
pub use child::Mailbox;
pub use context::{Context, Key, Level, ReadContext};
pub use convert::{FromJson, Input, Output, Payload, ToJson};
pub use error::{Error, ResultExt, Status};
#[cfg(feature = "macros")]
pub use greenroom_macros::actor;
pub use reminder::{Missed, Reminder, ReminderReader, ReminderWriter, Retry};
pub use state::{Each, StateReader, StateWriter};
pub use timer::{Timer, TimerWriter};
pub use turn::Module;

/// What an actor's file needs.
pub mod prelude {
    pub use crate::{ensure, Context, Error, Payload, ReadContext, ResultExt, Status};
    #[cfg(feature = "serde")]
    pub use serde::{Deserialize, Serialize};
}

/// For the macros alone.
#[doc(hidden)]
#[allow(missing_docs)]
pub mod __private {
    pub use crate::actor::{checked, checked_read_only, described, of_type, run, Reply};
    pub use crate::call::typed;
    #[cfg(target_arch = "wasm32")]
    pub use crate::exports::{alloc, manifest, print, turn};
    pub use crate::record::*;
    pub use crate::spec::{Instance, MethodSpec, Placement, Pool, TypeSpec};
    pub use crate::turn::{Entry, Hides, MayHideChanges};

    #[cfg(not(target_arch = "wasm32"))]
    pub fn print(level: crate::Level, text: std::fmt::Arguments<'_>) {
        if level < crate::Level::Warn {
            std::println!("{}", text);
        } else {
            std::eprintln!("{}", text);
        }
    }

    #[cfg(feature = "serde")]
    pub use serde;
}
