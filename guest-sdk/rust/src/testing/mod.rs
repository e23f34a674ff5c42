//! Runs actors in `cargo test`, as plain Rust, without Wasm and without a server.
//!
//! A [`Host`] keeps to the rules of a real one: a failed turn leaves no trace,
//! read-only methods cannot write, limits hold, older state is migrated, and nothing
//! that an actor keeps outside of its state comes to the next one: the memory of the
//! guest begins anew when another actor is called, and [`Host::drop_memory`] does it
//! at any time. (What is in a `static` stays, as it must in a test of plain Rust.)
//! The hooks of a type run as on a real host; [`ActorRef::leave`] asks an actor to leave.
//! Time stands still unless the test moves it, and randomness comes from a seed.
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
//!     fn start(&mut self, ctx: &Context) -> Result<(), Error> {
//!         self.started = Some(ctx.now_unix_millis());
//!         Ok(())
//!     }
//!     fn elapsed(&self, ctx: &ReadContext) -> Result<Option<i64>, Error> {
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
//!
//! // Several types play together, and each is known by its name as well:
//! let host = Host::of(&GREENROOM_MODULE);
//! assert_eq!(host.actor_named("Timer", "egg").query("Elapsed", ()), Ok(None::<i64>));
//!
//! // So they call each other, in one transaction as on a server. Types of other modules are
//! // added, or their methods are faked:
//! host.fake("Account", "Deposit", |_id: &str, amount: i64| Ok(amount));
//! # Ok(())
//! # }
//! ```

mod actor_ref;
mod chain;
mod children;
mod functions;
mod living;
mod messages;
mod outside;
mod overlay;
mod reminders;
mod schedule;
mod subscriptions;
mod timers;
mod watches;
mod zone;

use crate::actor::Actor;
use crate::call;
use crate::capability::{Request, Response};
use crate::codec::{self, time, TurnFrame};
use crate::context::Key;
use crate::convert::{Input, Output, Payload};
use crate::error::{Error, Status};
use crate::host::Host as Functions;
use crate::turn::{self, Entry, Memory, Module};
use chain::{Chain, FakeMethod, Member};
use functions::{mix, TurnHost};
use messages::{Letter, Society};
use outside::Outside;
use overlay::{next, Entries};
use reminders::{Fired, Reminders, TurnReminders};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::rc::Rc;
use std::time::{Duration, SystemTime};
use subscriptions::Notice;
use timers::Timed;

pub use actor_ref::{ActorRef, ByName};
pub use functions::LogLine;
pub use messages::{DeadMessage, Event, MessageState};
pub use reminders::{DeadLetter, ReminderState};
pub use subscriptions::SubscriptionState;
pub use timers::TimerState;

/// The app that the actors of a [`Host`] belong to.
pub const APP: &str = "default";

/// When the clock of a [`Host`] begins, in nanoseconds since 1970:
/// 2025-01-01T12:00:00Z.
const EPOCH: i64 = 1_735_732_800_000_000_000;
const STATE_BYTES: u64 = 1 << 20;
const PAYLOAD_BYTES: u64 = 4 << 20;
/// How many reminders, timers, messages and events one `advance` runs.
const MAX_FIRINGS: u32 = 1_000_000;

/// A host in memory, for one test.
///
/// Clones are the same host.
#[derive(Clone)]
pub struct Host(Rc<World>);

/// What [`Host::fake`] returns: its methods say more about the method that the fake stands for.
#[derive(Clone)]
pub struct Fake(Rc<FakeMethod>);

impl Fake {
    /// Makes the method read-only, so that read-only methods may call it. It has no effect if
    /// the host has the method's type: then the type says whether the method is read-only.
    #[allow(clippy::must_use_candidate)] // used as a statement
    pub fn read_only(&self) -> &Fake {
        self.0.read_only.set(true);
        self
    }

    /// Puts the actors of the fake at another server: calls are committed on their own
    /// ([`Message::call_committed`](crate::call::Message::call_committed)), and those that must be
    /// in the caller's transaction get [`NOT_ATOMIC`](crate::call::NOT_ATOMIC).
    #[allow(clippy::must_use_candidate)] // used as a statement
    pub fn elsewhere(&self) -> &Fake {
        self.0.elsewhere.set(true);
        self
    }
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fake")
    }
}

struct World {
    types: RefCell<HashMap<&'static str, Entry>>,
    rows: RefCell<HashMap<Key, Row>>,
    memory: RefCell<Memory>,
    /// The actor that the memory belongs to.
    last: RefCell<Option<Key>>,
    logs: Rc<RefCell<Vec<LogLine>>>,
    now: Cell<i64>,
    seed: u64,
    turns: Cell<u64>,
    revisions: Rc<Cell<u64>>,
    outside: Rc<Outside>,
    reminders: Rc<Reminders>,
    society: Society,
    fakes: RefCell<HashMap<(String, String), Rc<FakeMethod>>>,
    /// What runs now.
    chain: RefCell<Option<Rc<Chain>>>,
    /// The actors whose state is in memory.
    awake: RefCell<HashSet<Key>>,
}

/// What asks for a turn that nobody calls.
#[derive(Clone, Copy)]
enum Asks<'a> {
    Reminder(&'a Fired),
    Timer(&'a Timed),
    Message(&'a Letter),
    Event(&'a Notice),
    /// The hook of an actor that leaves.
    Leaving,
}

/// An actor as it is stored.
#[derive(Clone, Default)]
struct Row {
    version: u64,
    revision: u64,
    schema: u32,
    entries: Entries,
    /// The set of methods that it accepts; empty: all.
    set: String,
    spawned: bool,
    /// Whether the hook has run, or the state was there before.
    created: bool,
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
    /// A host without actors, at 2025-01-01T12:00:00Z.
    #[must_use]
    pub fn new() -> Host {
        Host::with_seed(0)
    }

    /// As [`Host::new`], with other random numbers for the turns.
    #[must_use]
    pub fn with_seed(seed: u64) -> Host {
        Host(Rc::new(World {
            types: RefCell::default(),
            rows: RefCell::default(),
            memory: RefCell::default(),
            last: RefCell::default(),
            logs: Rc::default(),
            now: Cell::new(EPOCH),
            seed,
            turns: Cell::new(0),
            revisions: Rc::default(),
            outside: Rc::default(),
            reminders: Rc::default(),
            society: Society::default(),
            fakes: RefCell::default(),
            chain: RefCell::default(),
            awake: RefCell::default(),
        }))
    }

    /// A host that has the types of a module, as a server that it was deployed to:
    /// `Host::of(&my_guest::GREENROOM_MODULE)`.
    #[must_use]
    pub fn of(module: &'static Module) -> Host {
        let host = Host::new();
        for entry in module.types() {
            host.add(*entry);
        }
        host
    }

    /// Has the type `A` as well.
    ///
    /// # Panics
    ///
    /// The host has another type of the same name.
    pub fn add_type<A: Actor>(&self) {
        self.add(Entry::of::<A>());
    }

    fn add(&self, entry: Entry) {
        let mut types = self.0.types.borrow_mut();
        let there = types.entry(entry.spec.name).or_insert(entry);
        assert!(
            (there.type_id)() == (entry.type_id)(),
            "the host has another actor type of the name {:?}",
            entry.spec.name
        );
    }

    /// The time that the next turn begins at.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        time(self.0.now.get())
    }

    /// Gives the app a configuration value. A type must declare it, too.
    pub fn set_config(&self, name: &str, value: &str) {
        let mut config = self.0.outside.config.borrow_mut();
        config.insert(name.to_string(), value.to_string());
    }

    /// Gives the app a secret. A type must declare it, too.
    pub fn set_secret(&self, name: &str, value: &[u8]) {
        let mut secrets = self.0.outside.secrets.borrow_mut();
        secrets.insert(name.to_string(), value.to_vec());
    }

    /// Grants the app every host, and answers the requests of actors with `handle`.
    /// Those to hosts that a type does not declare are denied before, and so is
    /// everything but GET and HEAD in read-only methods. An error stands for a host
    /// that cannot be reached. Redirects are not followed here.
    pub fn handle_http(&self, handle: impl Fn(&Request) -> Result<Response, Error> + 'static) {
        *self.0.outside.http.borrow_mut() = Some(Box::new(handle));
    }

    /// Answers calls and messages of actors to a method of any actor of a type, in the place of
    /// that type, which the host need not have: with what `answer` returns for the actor's
    /// ID and the input. A call that `answer` makes of an actor of this host is part of the
    /// same transaction.
    pub fn fake<I: Input, O: Output>(
        &self,
        actor_type: &str,
        method: &str,
        answer: impl Fn(&str, I) -> Result<O, Error> + 'static,
    ) -> Fake {
        let fake = Rc::new(FakeMethod {
            answer: Box::new(move |id, input| {
                answer(id, I::from_payload(&input.content_type, &input.body)?)?.into_payload()
            }),
            read_only: Cell::new(false),
            elsewhere: Cell::new(false),
        });
        let name = (actor_type.to_string(), method.to_string());
        self.0.fakes.borrow_mut().insert(name, fake.clone());
        Fake(fake)
    }

    /// Moves the clock on, and runs what is due until then, reminders, timers, messages and
    /// events, in order, each at its own time: with what failed firings and new reminders add.
    /// What is due at once when it is set fires with the next `advance`, also one of zero. Jitter
    /// is none here, and without the feature `zones` UTC is the only time zone.
    ///
    /// # Panics
    ///
    /// The clock would pass the year 2262; a turn runs, which called a fake; a method that is reminded panics; reminders
    /// that set themselves anew without a delay come to no end.
    pub fn advance(&self, by: Duration) {
        let world = &self.0;
        self.must_be_idle();
        let by = i64::try_from(by.as_nanos()).ok();
        let until = by.and_then(|by| world.now.get().checked_add(by));
        let until = until.expect("the clock ends in the year 2262");
        let mut fired = 0;
        loop {
            let reminder = world.reminders.next(until);
            let timer = world.reminders.timers.next(until);
            let of_reminder = reminder.as_ref().map(|(_, set)| (set.1.fire_at, set.0));
            let of_timer = timer.as_ref().map(|(_, timer)| (timer.due, timer.order));
            let message = self.next_message(until);
            let event = self.next_event(until);
            let all = [of_reminder, of_timer, message, event];
            let first = match all.iter().flatten().min() {
                None => break,
                first => first.copied(),
            };
            let at = first.map_or(0, |(at, _)| at);
            assert!(
                fired < MAX_FIRINGS,
                "{fired} reminders, timers, messages and events have run, and more are due: advance in shorter steps, or mend one that sets itself anew without a delay"
            );
            fired += 1;
            world.now.set(world.now.get().max(at));
            match (reminder, timer, message, event) {
                (Some((key, set)), ..) if first == of_reminder => self.fire(&key, set),
                (_, Some((key, timer)), ..) if first == of_timer => self.fire_timer(&key, &timer),
                (_, _, Some((_, order)), _) if first == message => self.deliver_one(order),
                (.., Some((_, order))) => self.deliver_event(order),
                _ => {}
            }
        }
        world.now.set(world.now.get().max(until));
    }

    /// Panics if a turn runs.
    fn must_be_idle(&self) {
        assert!(
            self.0.chain.borrow().is_none(),
            "the clock stands still while a turn runs, and what it sends is not sent yet"
        );
    }

    fn fire(&self, key: &Key, set: reminders::Set) {
        let world = &self.0;
        let now = world.now.get();
        let firing = set.1.fire(now);
        let fired = Fired { set, firing };
        let reminder = &fired.set.1;
        let over = |then| {
            let changes = [(reminder.name.clone(), then)];
            world.reminders.commit(key, &changes.into_iter().collect());
        };
        if !fired.firing.deliver {
            return over(fired.then());
        }
        let input = Payload::new(reminder.content_type.as_str(), reminder.payload.as_slice());
        let result = self.ask(key, &reminder.method, &input, Asks::Reminder(&fired));
        if let Err(error) = result {
            if let Some(again) = reminder.failed(&fired.firing, now) {
                return over(Some(Rc::new((fired.set.0, again))));
            }
            if !reminder.drops() {
                let reminder = state_of(key, reminder);
                let mut dead = world.reminders.dead.borrow_mut();
                dead.push(DeadLetter { reminder, error });
            }
            over(fired.then());
        }
    }

    /// Runs the turn of a timer. One that fails leaves nothing, not even a dead letter.
    fn fire_timer(&self, key: &Key, timer: &Timed) {
        let reminders = &self.0.reminders;
        reminders.timers.begin(key, timer, self.0.now.get());
        let _ = self.ask(key, &timer.method, &timer.input, Asks::Timer(timer));
    }

    /// Runs a turn that nobody calls.
    fn ask(
        &self,
        key: &Key,
        method: &str,
        input: &Payload,
        by: Asks<'_>,
    ) -> Result<Payload, Error> {
        let entry = self.0.types.borrow().get(key.actor_type.as_str()).copied();
        let found = entry.and_then(|entry| Some((entry, entry.spec.method(method)?)));
        let (entry, method) = found.ok_or_else(|| {
            Error::new(
                Status::NotFound,
                "method_not_found",
                "there is no such method",
            )
        })?;
        self.invoke(&entry, key, method, input, Some(by))
    }

    /// All timers that are set, in the order in which they fire.
    #[must_use]
    pub fn timers(&self) -> Vec<TimerState> {
        let all = self.0.reminders.timers.of.borrow();
        let mut sorted: Vec<_> = all.iter().collect();
        sorted.sort_by_key(|(_, timer)| (timer.due, timer.order));
        sorted
            .into_iter()
            .map(|((key, _), timer)| timer.state(key))
            .collect()
    }

    fn lose_timers(&self, key: &Key) {
        self.0.reminders.timers.lose(key);
    }

    /// All reminders that are set, in the order in which they fire.
    #[must_use]
    pub fn reminders(&self) -> Vec<ReminderState> {
        let all = self.0.reminders.of.borrow();
        let mut sorted: Vec<_> = all.iter().collect();
        sorted.sort_by_key(|(_, set)| (set.1.fire_at, set.0));
        sorted
            .into_iter()
            .map(|((key, _), set)| state_of(key, &set.1))
            .collect()
    }

    /// The firings that failed as often as they may, oldest first.
    #[must_use]
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        self.0.reminders.dead.borrow().clone()
    }

    fn remove_reminders(&self, key: &Key) {
        self.0.reminders.remove(key);
    }

    /// Forgets what the guest's memory holds, as a host may between two turns.
    /// Actors must not notice.
    pub fn drop_memory(&self) {
        *self.0.memory.borrow_mut() = Memory::default();
    }

    /// All that the actors logged so far, oldest first.
    #[must_use]
    pub fn logs(&self) -> Vec<LogLine> {
        self.0.logs.borrow().clone()
    }

    /// Hands one frame to the actor, and takes its answer.
    fn run(
        &self,
        entry: &Entry,
        key: &Key,
        member: &Rc<Member>,
        reminders: &Rc<TurnReminders>,
        frame: &TurnFrame<'_>,
    ) -> Result<Payload, Error> {
        let world = &self.0;
        let chain = world.chain.borrow().clone().expect("a turn is in a chain");
        world.turns.set(world.turns.get() + 1);
        // A read-only turn has an instance of its own, with nothing in its memory, and so
        // has one that was called.
        let own = RefCell::default();
        let memory = if frame.flags & codec::FLAG_READ_ONLY != 0 || chain.is_nested() {
            &own
        } else {
            &world.memory
        };
        let overlay = &member.overlay;
        let turn_host = Rc::new(TurnHost {
            host: self.clone(),
            chain: chain.clone(),
            migrates: frame.what == codec::WHAT_MIGRATE,
            key: key.clone(),
            version: member.row.version,
            overlay: overlay.clone(),
            payload_limit: or_default(entry.spec.limits.payload_bytes, PAYLOAD_BYTES),
            random: Cell::new(mix(world.seed ^ mix(world.turns.get()))),
            logs: world.logs.clone(),
            reply: RefCell::default(),
            failure: RefCell::default(),
            uses: entry.spec.capabilities,
            outside: world.outside.clone(),
            reminders: reminders.clone(),
            member: member.clone(),
        });
        // By way of the bytes, so that what a real host could not carry fails
        // here too.
        let bytes = codec::encode_turn(&TurnFrame {
            revision: overlay.borrow().revision,
            ..frame.clone()
        });
        let faking = chain.faking.replace(false);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let functions: Rc<dyn Functions> = turn_host.clone();
            let result = codec::decode_turn(&bytes)
                .map_err(|e| Error::new(Status::Internal, "bad_frame", e.to_string()))
                .and_then(|frame| (entry.run)(memory, &functions, &frame));
            turn::finish(functions.as_ref(), result)
        }));
        // The panic of a fake, or of the outermost turn, ends the test.
        let called = chain.is_nested() && !chain.faking.replace(faking);
        match outcome {
            Ok(0) => Ok(turn_host.reply.take()),
            Ok(_) => Err(turn_host.failure.take().unwrap_or_else(|| {
                Error::new(
                    Status::Internal,
                    "guest_protocol",
                    "the turn failed and gave no error",
                )
            })),
            Err(panic) if called => {
                let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                let text = text.unwrap_or_default();
                let (actor_type, method) = (&key.actor_type, frame.method);
                let message = format!("{actor_type}.{method} trapped: {text}");
                Err(Error::new(Status::Internal, call::TRAP, message))
            }
            Err(panic) => {
                chain.faking.set(true); // the turns that wait for this one pass the panic on, too
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
            created: !entries.is_empty(),
            entries,
            ..Row::default()
        };
        self.0.awake.borrow_mut().remove(key);
        self.0.rows.borrow_mut().insert(key.clone(), row);
    }
}

fn state_of(key: &Key, reminder: &schedule::Scheduled) -> ReminderState {
    ReminderState {
        actor: key.clone(),
        name: reminder.name.clone(),
        method: reminder.method.clone(),
        input: Payload::new(reminder.content_type.as_str(), reminder.payload.as_slice()),
        due: time(reminder.due),
        fire_at: time(reminder.fire_at),
        failures: reminder.failures,
    }
}

fn or_default(limit: u64, default: u64) -> u64 {
    if limit == 0 {
        default
    } else {
        limit
    }
}

fn check_size(status: Status, what: &str, size: u64, limit: u64) -> Result<(), Error> {
    if size <= limit {
        return Ok(());
    }
    Err(Error::new(
        status,
        format!("{what}_too_large"),
        format!("the {what} has {size} bytes; at most {limit} are allowed"),
    ))
}
