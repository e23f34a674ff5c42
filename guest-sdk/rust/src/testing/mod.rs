//! Runs actors in `cargo test`, as plain Rust, without Wasm and without a server.
//!
//! A [`Host`] keeps to the rules of a real one: a failed turn leaves no trace,
//! read-only methods cannot write, limits hold, older state is migrated, and the
//! memory of a guest may vanish between two turns ([`Host::drop_memory`]). Time
//! stands still unless the test moves it, and randomness comes from a seed.
//!
#![cfg_attr(feature = "serde", doc = "```")]
#![cfg_attr(not(feature = "serde"), doc = "```ignore")]
//! use greenroom::prelude::*;
//! use greenroom::testing::Host;
//! use std::time::Duration;
//!
//! #[derive(Default, Serialize, Deserialize)]
//! struct Timer { started: Option<i64> }
//!
//! impl Timer {
//!     fn start(&mut self, ctx: &mut Context) -> Result<(), Error> {
//!         self.started = Some(ctx.now_unix_millis());
//!         Ok(())
//!     }
//!     fn elapsed(&self, ctx: &Context) -> Result<Option<i64>, Error> {
//!         Ok(self.started.map(|t| ctx.now_unix_millis() - t))
//!     }
//! }
//! greenroom::actors! {
//!     Timer { methods: { "Start" => start, "Elapsed" => read_only elapsed } }
//! }
//!
//! # fn main() -> Result<(), Error> {
//! let host = Host::new();
//! let egg = host.actor::<Timer>("egg");
//! egg.call::<()>("Start", ())?;
//! host.advance(Duration::from_secs(3));
//! assert_eq!(egg.query("Elapsed", ()), Ok(Some(3000)));
//! assert_eq!(host.actor::<Timer>("tea").query("Elapsed", ()), Ok(None::<i64>));
//! # Ok(())
//! # }
//! ```

mod overlay;

use crate::actor::Actor;
use crate::codec::{self, TurnFrame};
use crate::context::{Key, Level};
use crate::convert::{FromJson, Output, Payload};
use crate::error::{Error, Status};
use crate::host::{Code, Format, Host as Functions};
use crate::json;
use crate::spec::{MethodSpec, Placement};
use crate::turn::{self, Memory};
use overlay::{Entries, Overlay, Value};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The app that the actors of a [`Host`] belong to.
pub const APP: &str = "default";

/// When the clock of a [`Host`] begins, in nanoseconds since 1970:
/// 2020-01-01T00:00:00Z.
const EPOCH: i64 = 1_577_836_800_000_000_000;
const STATE_BYTES: u64 = 1 << 20;
const PAYLOAD_BYTES: u64 = 4 << 20;

/// A line that an actor wrote to its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Who wrote it.
    pub actor: Key,
    /// A [`Level`] as a number.
    pub level: i32,
    /// What it says.
    pub text: String,
}

impl LogLine {
    /// Whether it was written at this level.
    pub fn is(&self, level: Level) -> bool {
        self.level == level as i32
    }
}

/// A host in memory, for one test.
///
/// Clones are the same host.
#[derive(Clone)]
pub struct Host(Rc<World>);

struct World {
    rows: RefCell<HashMap<Key, Row>>,
    memory: RefCell<Memory>,
    logs: Rc<RefCell<Vec<LogLine>>>,
    now: Cell<i64>,
    seed: u64,
    turns: Cell<u64>,
    revisions: Rc<Cell<u64>>,
}

/// An actor as it is stored.
#[derive(Clone, Default)]
struct Row {
    version: u64,
    revision: u64,
    schema: u32,
    entries: Entries,
}

impl Default for Host {
    fn default() -> Host {
        Host::new()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("actors", &self.0.rows.borrow().len())
            .field("turns", &self.0.turns.get())
            .finish_non_exhaustive()
    }
}

impl Host {
    /// A host without actors, at 2020-01-01T00:00:00Z.
    pub fn new() -> Host {
        Host::with_seed(0)
    }

    /// As [`Host::new`], with other random numbers for the turns.
    pub fn with_seed(seed: u64) -> Host {
        Host(Rc::new(World {
            rows: RefCell::default(),
            memory: RefCell::default(),
            logs: Rc::default(),
            now: Cell::new(EPOCH),
            seed,
            turns: Cell::new(0),
            revisions: Rc::default(),
        }))
    }

    /// The actor with this type and ID. Like every actor it exists already.
    pub fn actor<A: Actor>(&self, id: &str) -> ActorRef<A> {
        ActorRef {
            host: self.clone(),
            key: Key {
                app: APP.to_string(),
                actor_type: A::SPEC.name.to_string(),
                id: id.to_string(),
            },
            actor: PhantomData,
        }
    }

    /// The time that the next turn begins at.
    pub fn now(&self) -> SystemTime {
        let nanos = self.0.now.get();
        if nanos < 0 {
            UNIX_EPOCH - Duration::from_nanos(nanos.unsigned_abs())
        } else {
            UNIX_EPOCH + Duration::from_nanos(nanos.unsigned_abs())
        }
    }

    /// Moves the clock on.
    ///
    /// # Panics
    ///
    /// The clock would pass the year 2262.
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_nanos()).ok();
        let now = by.and_then(|by| self.0.now.get().checked_add(by));
        self.0
            .now
            .set(now.expect("the clock ends in the year 2262"));
    }

    /// Forgets what the guest's memory holds, as a host may between two turns.
    /// Actors must not notice.
    pub fn drop_memory(&self) {
        *self.0.memory.borrow_mut() = Memory::default();
    }

    /// All that the actors logged so far, oldest first.
    pub fn logs(&self) -> Vec<LogLine> {
        self.0.logs.borrow().clone()
    }

    /// Runs one call to its commit.
    fn invoke<A: Actor>(
        &self,
        key: &Key,
        method: &MethodSpec,
        payload: &Payload,
    ) -> Result<Payload, Error> {
        let world = &self.0;
        let limit = or_default(A::SPEC.limits.payload_bytes, PAYLOAD_BYTES);
        check_size("payload", payload.body.len() as u64, limit)?;
        let row = self.row(key);
        if row.schema > A::SPEC.state_schema {
            return Err(Error::new(
                Status::FailedPrecondition,
                "schema_newer",
                format!(
                    "the state has schema {}, the type knows {}",
                    row.schema,
                    A::SPEC.state_schema
                ),
            ));
        }
        let stateless = A::SPEC.placement == Placement::Stateless;
        let overlay = Rc::new(RefCell::new(Overlay::new(
            row.entries.clone(),
            row.revision,
            world.revisions.clone(),
            stateless,
        )));
        let invocation = format!("invocation-{}", world.turns.get() + 1);
        let mut frame = TurnFrame {
            app: &key.app,
            actor_type: &key.actor_type,
            id: &key.id,
            invocation_id: &invocation,
            time_unix_nano: world.now.get(),
            ..TurnFrame::default()
        };
        if A::SPEC.migrate && row.version > 0 && row.schema < A::SPEC.state_schema {
            frame.what = codec::WHAT_MIGRATE;
            frame.stored_schema = row.schema;
            self.run::<A>(key, &row, &overlay, &frame)?;
            frame.stored_schema = 0;
        }
        frame.what = codec::WHAT_METHOD;
        frame.method = method.name;
        frame.content_type = &payload.content_type;
        frame.payload = &payload.body;
        if method.read_only {
            frame.flags = codec::FLAG_READ_ONLY;
            overlay.borrow_mut().read_only = true;
        }
        let reply = self.run::<A>(key, &row, &overlay, &frame)?;
        let overlay = overlay.borrow();
        let limit = or_default(A::SPEC.limits.state_bytes, STATE_BYTES);
        if let Err(e) = check_size("state", overlay.size(), limit) {
            self.drop_memory(); // it may hold what is not committed now
            return Err(e);
        }
        if overlay.revision != row.revision && !method.read_only {
            let row = Row {
                version: row.version + 1,
                revision: overlay.revision,
                schema: A::SPEC.state_schema,
                entries: overlay.entries.clone(),
            };
            world.rows.borrow_mut().insert(key.clone(), row);
        }
        Ok(reply)
    }

    /// Hands one frame to the actor, and takes its answer.
    fn run<A: Actor>(
        &self,
        key: &Key,
        row: &Row,
        overlay: &Rc<RefCell<Overlay>>,
        frame: &TurnFrame<'_>,
    ) -> Result<Payload, Error> {
        let world = &self.0;
        world.turns.set(world.turns.get() + 1);
        let turn_host = Rc::new(TurnHost {
            key: key.clone(),
            version: row.version,
            overlay: overlay.clone(),
            payload_limit: or_default(A::SPEC.limits.payload_bytes, PAYLOAD_BYTES),
            random: Cell::new(mix(world.seed ^ mix(world.turns.get()))),
            logs: world.logs.clone(),
            reply: RefCell::default(),
            failure: RefCell::default(),
        });
        // By way of the bytes, so that what a real host could not carry fails
        // here too.
        let bytes = codec::encode_turn(&TurnFrame {
            revision: overlay.borrow().revision,
            ..frame.clone()
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let functions: Rc<dyn Functions> = turn_host.clone();
            let result = codec::decode_turn(&bytes)
                .map_err(|e| Error::new(Status::Internal, "bad_frame", e.to_string()))
                .and_then(|frame| turn::run::<A>(&world.memory, &functions, &frame));
            turn::finish(functions.as_ref(), result)
        }));
        match outcome {
            Ok(0) => Ok(turn_host.reply.take()),
            Ok(_) => Err(turn_host.failure.take().unwrap_or_else(|| {
                Error::new(
                    Status::Internal,
                    "guest_protocol",
                    "the turn failed and gave no error",
                )
            })),
            Err(panic) => {
                self.drop_memory();
                resume_unwind(panic)
            }
        }
    }

    /// The stored row; a new one has a revision of its own.
    fn row(&self, key: &Key) -> Row {
        let mut rows = self.0.rows.borrow_mut();
        let row = rows.entry(key.clone()).or_insert_with(|| Row {
            revision: next(&self.0.revisions),
            ..Row::default()
        });
        row.clone()
    }

    /// Replaces what is stored, behind the guest's back.
    fn put(&self, key: &Key, schema: u32, entries: Entries) {
        let row = Row {
            version: self.row(key).version + 1,
            revision: next(&self.0.revisions),
            schema,
            entries,
        };
        self.0.rows.borrow_mut().insert(key.clone(), row);
    }
}

fn next(counter: &Cell<u64>) -> u64 {
    counter.set(counter.get() + 1);
    counter.get()
}

fn or_default(limit: u64, default: u64) -> u64 {
    if limit == 0 {
        default
    } else {
        limit
    }
}

fn check_size(what: &str, size: u64, limit: u64) -> Result<(), Error> {
    if size <= limit {
        return Ok(());
    }
    Err(Error::new(
        Status::ResourceExhausted,
        format!("{what}_too_large"),
        format!("the {what} has {size} bytes; at most {limit} are allowed"),
    ))
}

/// SplitMix64's output function.
fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// One actor of a [`Host`].
pub struct ActorRef<A> {
    host: Host,
    key: Key,
    actor: PhantomData<fn() -> A>,
}

impl<A> Clone for ActorRef<A> {
    fn clone(&self) -> ActorRef<A> {
        ActorRef {
            host: self.host.clone(),
            key: self.key.clone(),
            actor: PhantomData,
        }
    }
}

impl<A> fmt::Debug for ActorRef<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActorRef({})", self.key)
    }
}

impl<A: Actor> ActorRef<A> {
    /// Calls a method, as a caller from outside would. `()` is no argument.
    ///
    /// # Errors
    ///
    /// What the method returned, or what a host would say: `method_not_found`,
    /// `payload_too_large`, `state_too_large`, `schema_newer`.
    ///
    /// # Panics
    ///
    /// The method panics; the panic comes through after the turn was undone.
    pub fn call<T: FromJson>(&self, method: &str, input: impl Output) -> Result<T, Error> {
        let reply = self.call_payload(method, input.into_payload()?)?;
        T::from_json(&reply.body).map_err(|e| e.context("reply"))
    }

    /// As [`ActorRef::call`], for methods that do not speak JSON.
    ///
    /// # Errors
    ///
    /// As [`ActorRef::call`].
    pub fn call_payload(&self, method: &str, payload: Payload) -> Result<Payload, Error> {
        self.host
            .invoke::<A>(&self.key, self.method(method)?, &payload)
    }

    /// Calls a read-only method, as an HTTP GET would.
    ///
    /// # Errors
    ///
    /// As [`ActorRef::call`], and `not_read_only`.
    pub fn query<T: FromJson>(&self, method: &str, input: impl Output) -> Result<T, Error> {
        if !self.method(method)?.read_only {
            return Err(Error::new(
                Status::FailedPrecondition,
                "not_read_only",
                format!("{}.{method} is not declared read_only", A::SPEC.name),
            ));
        }
        self.call(method, input)
    }

    fn method(&self, name: &str) -> Result<&'static MethodSpec, Error> {
        A::SPEC.method(name).ok_or_else(|| {
            Error::new(
                Status::NotFound,
                "method_not_found",
                format!("{} has no method {name:?}", A::SPEC.name),
            )
        })
    }

    /// The actor's name in full.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// How often the stored state was written; 0 for never.
    pub fn version(&self) -> u64 {
        self.host.row(&self.key).version
    }

    /// The stored keys, in ascending byte order.
    pub fn keys(&self) -> Vec<String> {
        self.host.row(&self.key).entries.into_keys().collect()
    }

    /// The stored keys with JSON values, as one object.
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
            (key, Value::json(value))
        });
        self.host.put(&self.key, schema, entries.collect());
    }

    /// Removes the stored state, as an administrator would.
    pub fn delete(&self) {
        self.host.put(&self.key, 0, Entries::new());
    }
}

/// The host's functions during one turn.
struct TurnHost {
    key: Key,
    version: u64,
    overlay: Rc<RefCell<Overlay>>,
    payload_limit: u64,
    random: Cell<u64>,
    logs: Rc<RefCell<Vec<LogLine>>>,
    reply: RefCell<Payload>,
    failure: RefCell<Option<Error>>,
}

impl Functions for TurnHost {
    fn state_get(&self, key: &str) -> Result<(Format, Vec<u8>), Code> {
        let overlay = self.overlay.borrow();
        let value = overlay.get(key)?;
        Ok((value.format, value.bytes.clone()))
    }

    fn state_set(&self, key: &str, value: &[u8], format: Format) -> Result<(), Code> {
        self.overlay.borrow_mut().set(key, value, format)
    }

    fn state_delete(&self, key: &str) -> Result<bool, Code> {
        self.overlay.borrow_mut().delete(key)
    }

    fn state_delete_all(&self) -> Result<u32, Code> {
        self.overlay.borrow_mut().delete_all()
    }

    fn state_keys(&self, prefix: &str) -> Result<Vec<u8>, Code> {
        self.overlay.borrow().keys(prefix)
    }

    fn state_json(&self) -> Result<Vec<u8>, Code> {
        self.overlay.borrow().json()
    }

    fn state_patch(&self, before: &[u8], after: &[u8]) -> Result<u32, Code> {
        self.overlay.borrow_mut().patch(before, after)
    }

    fn state_version(&self) -> u64 {
        self.version
    }

    fn state_revision(&self) -> u64 {
        self.overlay.borrow().revision
    }

    fn reply(&self, content_type: &str, body: &[u8]) -> Result<(), Code> {
        if body.len() as u64 > self.payload_limit {
            return Err(Code::TOO_LARGE);
        }
        *self.reply.borrow_mut() = Payload::new(content_type, body);
        Ok(())
    }

    fn fail(&self, frame: &[u8]) -> Result<(), Code> {
        let frame = codec::decode_error(frame).map_err(|_| Code::INVALID)?;
        *self.failure.borrow_mut() = Some(Error::from_frame(&frame));
        Ok(())
    }

    fn random(&self, buf: &mut [u8]) {
        for chunk in buf.chunks_mut(8) {
            let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.random.set(state);
            chunk.copy_from_slice(&mix(state).to_le_bytes()[..chunk.len()]);
        }
    }

    fn log(&self, level: i32, text: &str) {
        self.logs.borrow_mut().push(LogLine {
            actor: self.key.clone(),
            level,
            text: text.to_string(),
        });
    }
}
