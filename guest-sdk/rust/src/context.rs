//! What a method knows and may ask for.

use crate::cause::Cause;
use crate::codec::{self, TurnFrame};
use crate::host::Host;
use crate::text;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;
use std::time::SystemTime;

/// Names an actor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Key {
    /// The app that it belongs to.
    pub app: String,
    /// Its type.
    pub actor_type: String,
    /// Its ID.
    pub id: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}||{}||{}", self.app, self.actor_type, self.id)
    }
}

/// How important a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For whoever works on the actor.
    Debug = -4,
    /// Worth knowing.
    Info = 0,
    /// Odd, but dealt with.
    Warn = 4,
    /// Something is broken.
    Error = 8,
}

/// The turn of a method that may change things: all of [`ReadContext`], and the
/// writing half of the state.
///
/// Every method of it takes `&self`, so that what one of them lends, such as
/// [`id`](ReadContext::id), may be handed to another:
///
/// ```
/// # use greenroom::prelude::*;
/// # struct Cart;
/// # impl Cart {
/// fn open(&mut self, ctx: &Context) -> Result<(), Error> {
///     let id = ctx.id();
///     ctx.state().set("owner", id)
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Context {
    read: ReadContext,
}

impl Deref for Context {
    type Target = ReadContext;

    fn deref(&self) -> &ReadContext {
        &self.read
    }
}

impl Context {
    /// `names` are those of the turn, `saved` is the JSON of the typed state.
    pub(crate) fn new(
        host: Rc<dyn Host>,
        turn: &TurnFrame<'_>,
        names: Names,
        saved: Vec<u8>,
        read_only: bool,
    ) -> Context {
        Context {
            read: ReadContext {
                host,
                names,
                key: Lazy(UnsafeCell::new(None)),
                time_unix_nano: turn.time_unix_nano,
                read_only,
                saved: RefCell::new(saved),
                patched: Cell::new(false),
                keys_changed: Cell::new(false),
                deleted: Cell::new(Deleted::No),
                cause: Cause::of(turn),
                method_set: turn.method_set.to_string(),
                passed: Cell::new(false),
            },
        }
    }

    /// What it was made of.
    pub(crate) fn into_parts(self) -> (Names, Vec<u8>) {
        (self.read.names, self.read.saved.into_inner())
    }
}

/// The turn that a method runs in: who the actor is, its keys to read, the turn's
/// time and randomness, the log.
///
/// A method that takes `&self` and `&ReadContext` is read-only by its types: it has
/// nothing to write with, may run beside other turns, and answers HTTP GET.
pub struct ReadContext {
    host: Rc<dyn Host>,
    names: Names,
    key: Lazy,
    time_unix_nano: i64,
    read_only: bool,
    /// The JSON that the typed state was last in step with.
    saved: RefCell<Vec<u8>>,
    /// Whether that is not what the turn began with.
    patched: Cell<bool>,
    keys_changed: Cell<bool>,
    deleted: Cell<Deleted>,
    cause: Option<Box<Cause>>, // none for a call
    method_set: String,
    /// Whether the turn has ended its actor's life.
    passed: Cell<bool>,
}

/// Whether a turn deleted all keys of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deleted {
    No,
    /// The keys alone.
    Keys,
    /// The struct was set to its first value as well.
    KeysAndStruct,
}

impl ReadContext {
    /// The actor's name in full.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.key.get(&self.names)
    }

    /// The actor's ID.
    #[must_use]
    pub fn id(&self) -> &str {
        self.names.part(2)
    }

    /// The app that the actor belongs to.
    #[must_use]
    pub fn app(&self) -> &str {
        self.names.part(0)
    }

    /// The method that was called; empty in a migration.
    #[must_use]
    pub fn method(&self) -> &str {
        self.names.part(3)
    }

    /// Names this call; the same for every attempt to run it.
    #[must_use]
    pub fn invocation_id(&self) -> &str {
        self.names.part(4)
    }

    /// What brought the turn about: a call, a message, or the firing of a reminder.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.cause.as_deref().cloned().unwrap_or_else(Cause::call)
    }

    /// Whether this turn may not change anything.
    #[must_use]
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// When the turn began. It does not move on while the turn runs.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        codec::time(self.time_unix_nano)
    }

    /// When the turn began, in milliseconds since 1970 UTC: a form of the time
    /// that fits JSON.
    #[must_use]
    pub fn now_unix_millis(&self) -> i64 {
        self.time_unix_nano.div_euclid(1_000_000)
    }

    /// When the turn began, in nanoseconds since 1970 UTC.
    #[must_use]
    pub fn now_unix_nanos(&self) -> i64 {
        self.time_unix_nano
    }

    /// Fills `buf` from the turn's random stream. The same turn gets the same
    /// bytes when it runs again.
    pub fn random(&self, buf: &mut [u8]) {
        self.host.random(buf);
    }

    /// A random number from the turn's stream.
    #[must_use]
    pub fn random_u64(&self) -> u64 {
        let mut buf = [0; 8];
        self.random(&mut buf);
        u64::from_le_bytes(buf)
    }

    /// Writes a line to the actor's log.
    pub fn log(&self, level: Level, text: impl fmt::Display) {
        self.host.log(level as i32, &text.to_string());
    }

    /// Writes a line at [`Level::Debug`].
    pub fn debug(&self, text: impl fmt::Display) {
        self.log(Level::Debug, text);
    }

    /// Writes a line at [`Level::Info`].
    pub fn info(&self, text: impl fmt::Display) {
        self.log(Level::Info, text);
    }

    /// Writes a line at [`Level::Warn`].
    pub fn warn(&self, text: impl fmt::Display) {
        self.log(Level::Warn, text);
    }

    /// Writes a line at [`Level::Error`].
    pub fn error(&self, text: impl fmt::Display) {
        self.log(Level::Error, text);
    }

    pub(crate) fn host(&self) -> &dyn Host {
        self.host.as_ref()
    }

    pub(crate) fn note_key_change(&self) {
        self.keys_changed.set(true);
    }

    pub(crate) fn note_deleted(&self, deleted: Deleted) {
        self.keys_changed.set(true);
        self.deleted.set(deleted);
    }

    pub(crate) fn note_passed(&self) {
        self.keys_changed.set(true);
        self.passed.set(true);
    }

    pub(crate) fn passed(&self) -> bool {
        self.passed.get()
    }

    pub(crate) fn set(&self) -> &str {
        &self.method_set
    }

    pub(crate) fn saved(&self) -> &RefCell<Vec<u8>> {
        &self.saved
    }

    pub(crate) fn note_patch(&self) {
        self.patched.set(true);
        self.deleted.set(Deleted::No);
    }

    pub(crate) fn patched(&self) -> bool {
        self.patched.get()
    }

    pub(crate) fn keys_changed(&self) -> bool {
        self.keys_changed.get()
    }

    pub(crate) fn deleted(&self) -> Deleted {
        self.deleted.get()
    }
}

/// What a turn's frame says of the actor and the call, in one allocation.
#[derive(Default)]
pub(crate) struct Names {
    text: String,
    ends: [usize; 5],
}

impl Names {
    #[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))]
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.text.reserve(bytes);
    }

    /// The names of a turn in the place of what they were.
    pub(crate) fn read(&mut self, turn: &TurnFrame<'_>) {
        let parts = [
            turn.app,
            turn.actor_type,
            turn.id,
            turn.method,
            turn.invocation_id,
        ];
        self.text.clear();
        self.text.reserve(parts.iter().map(|p| p.len()).sum());
        for (part, end) in parts.iter().zip(&mut self.ends) {
            self.text.push_str(part);
            *end = self.text.len();
        }
    }

    /// As [`read`](Names::read), for a turn of the same actor.
    pub(crate) fn read_call(&mut self, turn: &TurnFrame<'_>) {
        self.text.truncate(self.ends[2]);
        self.text.push_str(turn.method);
        self.ends[3] = self.text.len();
        self.text.push_str(turn.invocation_id);
        self.ends[4] = self.text.len();
    }

    fn part(&self, n: usize) -> &str {
        let start = if n == 0 { 0 } else { self.ends[n - 1] };
        &self.text[start..self.ends[n]]
    }

    /// Whether they name the same actor.
    pub(crate) fn same_actor(&self, turn: &TurnFrame<'_>) -> bool {
        [turn.app, turn.actor_type, turn.id]
            .iter()
            .enumerate()
            .all(|(n, part)| text::same(self.part(n).as_bytes(), part.as_bytes()))
    }
}

/// The key, made when somebody asks for it: most methods do not.
struct Lazy(UnsafeCell<Option<Box<Key>>>);

impl Lazy {
    fn get(&self, names: &Names) -> &Key {
        // SAFETY, both times: the cell is not Sync and nothing else reaches it. It is
        // written once, while nothing of it is lent, and only read from then on.
        if let Some(key) = unsafe { &*self.0.get() } {
            return key;
        }
        let key = Box::new(Key {
            app: names.part(0).to_string(),
            actor_type: names.part(1).to_string(),
            id: names.part(2).to_string(),
        });
        unsafe { &mut *self.0.get() }.get_or_insert(key)
    }
}

impl fmt::Debug for ReadContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadContext")
            .field("key", self.key())
            .field("method", &self.method())
            .field("invocation_id", &self.invocation_id())
            .finish_non_exhaustive()
    }
}

/// Calls a host function that a module imports only if it uses it, since it must declare
/// what it imports: in Wasm directly, because behind the trait all would be imported.
macro_rules! direct {
    ($ctx:expr, $function:ident($($argument:expr)?)) => {{
        #[cfg(target_arch = "wasm32")]
        let result = {
            let _ = $ctx;
            crate::wasm::$function($($argument)?)
        };
        #[cfg(not(target_arch = "wasm32"))]
        let result = $ctx.host().$function($($argument)?);
        result
    }};
}
pub(crate) use direct;
