//! One turn: from the frame to the reply.
//!
//! The typed state of an actor is decoded once and kept between turns, tagged
//! with the actor's key and the revision of what it was decoded from. It is
//! dropped when either differs, when a turn fails, and when a method changed
//! keys behind its back. While a turn runs, it is not in the memory at all, so
//! a turn that traps or is entered again never finds a half-changed one.

use crate::actor::Actor;
use crate::codec::{self, TurnFrame};
use crate::context::{Context, Deleted, Names};
use crate::convert::{Payload, JSON};
use crate::error::{Error, Status};
use crate::host::{Code, Host};
use crate::spec::{self, Placement, TypeSpec};
use crate::text;
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// The actor types of a module; [`actors!`](crate::actors) and
/// [`module!`](crate::module) make it, as `GREENROOM_MODULE`.
pub struct Module(&'static [Entry]);

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|entry| entry.spec.name);
        f.debug_list().entries(names).finish()
    }
}

/// One actor type of a module.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Entry {
    pub(crate) spec: TypeSpec,
    pub(crate) run: RunFn,
    /// Which type it is; not the ID itself, which no constant can have.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) type_id: fn() -> TypeId,
}

/// [`run`] for one type.
pub(crate) type RunFn =
    fn(&RefCell<Memory>, &Rc<dyn Host>, &TurnFrame<'_>) -> Result<Payload, Error>;

impl Entry {
    /// The entry of `A`, whose read-only methods are checked to change nothing.
    #[must_use]
    #[cfg_attr(target_arch = "wasm32", allow(dead_code))]
    pub(crate) const fn of<A: Actor>() -> Entry {
        Entry::of_module::<A>(true)
    }

    /// The entry of `A` in a module: read-only methods are checked in the test kit,
    /// and everywhere if a `&A` may hide changes.
    #[doc(hidden)]
    #[must_use]
    pub const fn of_module<A: Actor>(hides_changes: bool) -> Entry {
        Entry {
            spec: A::SPEC,
            run: if hides_changes || cfg!(not(target_arch = "wasm32")) {
                run::<A, true>
            } else {
                run::<A, false>
            },
            #[cfg(not(target_arch = "wasm32"))]
            type_id: TypeId::of::<A>,
        }
    }
}

/// Says by `CHANGES` whether a shared `A` may change: a type with a `Cell` or `RefCell`
/// somewhere is not `Sync`. For a type that is, the constant below is nearer than that
/// of [`MayHideChanges`]. A macro asks, since only there `A` is known.
#[doc(hidden)]
#[allow(missing_debug_implementations)]
pub struct Hides<A>(std::marker::PhantomData<A>);

impl<A: Sync> Hides<A> {
    pub const CHANGES: bool = false;
}

/// The `CHANGES` of types that are not `Sync`.
#[doc(hidden)]
pub trait MayHideChanges {
    const CHANGES: bool = true;
}

impl<A> MayHideChanges for Hides<A> {}

impl Module {
    /// A module with these types. Stops the compilation if a host would refuse them.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(types: &'static [Entry]) -> Module {
        assert!(types.len() <= 64, "a module has at most 64 actor types");
        let mut i = 0;
        while i < types.len() {
            let mut k = 0;
            while k < i {
                assert!(
                    !spec::same(types[i].spec.name, types[k].spec.name),
                    "two actor types of the module have the same name; give one of them another: `Type as \"shop.Type\"`"
                );
                k += 1;
            }
            i += 1;
        }
        Module(types)
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn types(&self) -> &'static [Entry] {
        self.0
    }

    /// The module's manifest.
    #[doc(hidden)]
    #[must_use]
    pub fn manifest(&self) -> String {
        let specs: Vec<TypeSpec> = self.0.iter().map(|t| t.spec).collect();
        spec::manifest(&specs)
    }

    #[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))]
    pub(crate) fn turn(&self, memory: &RefCell<Memory>, host: &Rc<dyn Host>, frame: &[u8]) -> i32 {
        let mut turn = TurnFrame::default();
        let result = match codec::read_turn(frame, &mut turn) {
            Ok(()) => match self.0.iter().find(|t| t.spec.name == turn.actor_type) {
                Some(entry) => (entry.run)(memory, host, &turn),
                None => Err(unknown_type(turn.actor_type)),
            },
            Err(e) => Err(Error::new(Status::Internal, "bad_frame", e.to_string())),
        };
        finish(host.as_ref(), result)
    }
}

#[cold]
fn unknown_type(name: &str) -> Error {
    Error::new(
        Status::Unimplemented,
        "unknown_type",
        format!("the module has no actor type {name:?}"),
    )
}

/// Hands the outcome to the host. Returns what the turn export returns.
pub(crate) fn finish(host: &dyn Host, result: Result<Payload, Error>) -> i32 {
    match result {
        Ok(reply) => {
            let content_type = match reply.content_type.as_str() {
                "" if !reply.body.is_empty() => JSON,
                named => named,
            };
            match host.reply(content_type, &reply.body) {
                Ok(()) => 0,
                Err(code) => refuse(host, &code.error("reply")),
            }
        }
        Err(error) => refuse(host, &error),
    }
}

#[cold]
fn refuse(host: &dyn Host, error: &Error) -> i32 {
    if host.fail(&error.to_frame()).is_err() {
        host.log(8, &format!("the host refused the error frame of: {error}"));
    }
    1
}

/// What an instance keeps between turns: for each actor type the typed state of
/// the actor that it served last.
#[derive(Default)]
pub(crate) struct Memory {
    states: Vec<(TypeId, Box<dyn Any>)>,
    buffers: Buffers, // for the first that is loaded
}

/// A typed state, and what the next turn saves allocating when it finds it.
struct Cached<A> {
    revision: u64,
    actor: A,
    buffers: Buffers,
}

/// The buffers of a turn.
#[derive(Default)]
struct Buffers {
    names: Names,
    /// The JSON that the actor was last in step with; the context has it meanwhile.
    saved: Vec<u8>,
    /// A spare one, whose content means nothing.
    spare: Vec<u8>,
}

/// The capacity of the first buffer for a stored state, in bytes.
const FIRST_SPARE: usize = 1024;

/// What a spare buffer may hold on to while the method runs, in bytes.
const MAX_SPARE: usize = 16 << 10;

impl Memory {
    fn take<A: Actor>(&mut self) -> Option<Box<Cached<A>>> {
        let i = self
            .states
            .iter()
            .position(|(t, _)| *t == TypeId::of::<A>())?;
        let (_, cached) = self.states.swap_remove(i);
        cached.downcast().ok()
    }

    fn put<A: Actor>(&mut self, cached: Box<Cached<A>>) {
        self.take::<A>();
        self.states.push((TypeId::of::<A>(), cached));
    }

    /// Allocates what the first turn would: in Wasm, before the host takes the
    /// image that it puts instances back to.
    #[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))]
    pub(crate) fn prepare(&mut self) {
        self.states.reserve(1);
        self.buffers.names.reserve(128);
        self.buffers.saved.reserve(64);
        self.buffers.spare.reserve(FIRST_SPARE);
    }
}

/// Runs one turn of an actor of type `A`.
///
/// On a host a read-only turn has an instance to itself, which is put back after it,
/// so what such a method changes is lost: with `CHECK` that is an error, for the price
/// of encoding the state.
pub(crate) fn run<A: Actor, const CHECK: bool>(
    memory: &RefCell<Memory>,
    host: &Rc<dyn Host>,
    turn: &TurnFrame<'_>,
) -> Result<Payload, Error> {
    let cached = memory.borrow_mut().take::<A>();
    match turn.what {
        codec::WHAT_METHOD => {}
        codec::WHAT_MIGRATE => return migrate::<A>(host, turn),
        what => return Err(unknown_turn(what)),
    }
    let read_only = match A::SPEC.method(turn.method) {
        Some(method) => method.read_only || turn.flags & codec::FLAG_READ_ONLY != 0,
        None => return Err(unknown_method::<A>(turn.method)),
    };
    let mut cached = match cached {
        Some(mut cached)
            if cached.revision == turn.revision && cached.buffers.names.same_actor(turn) =>
        {
            cached.buffers.names.read_call(turn);
            cached
        }
        old => {
            let buffers = match old {
                Some(old) => old.buffers,
                None => std::mem::take(&mut memory.borrow_mut().buffers),
            };
            load::<A>(host.as_ref(), turn, buffers)?
        }
    };
    let names = std::mem::take(&mut cached.buffers.names);
    let saved = std::mem::take(&mut cached.buffers.saved);
    let ctx = Context::new(host.clone(), turn, names, saved, read_only);
    let reply = cached
        .actor
        .call(&ctx, turn.method, turn.content_type, turn.payload)
        .unwrap_or_else(|| Err(unknown_method::<A>(turn.method)))?;
    if CHECK && read_only {
        check_unchanged(&ctx, &cached.actor, turn.method)?;
    }
    if !read_only {
        save(&ctx, &cached.actor, &mut cached.buffers.spare)?;
    }
    if !ctx.keys_changed() && A::SPEC.placement != Placement::Stateless {
        if ctx.patched() {
            cached.revision = host.state_revision();
        }
        (cached.buffers.names, cached.buffers.saved) = ctx.into_parts();
        memory.borrow_mut().put(cached);
    }
    Ok(reply)
}

/// Runs the migrate hook. Whatever it does, the struct is loaded again.
fn migrate<A: Actor>(host: &Rc<dyn Host>, turn: &TurnFrame<'_>) -> Result<Payload, Error> {
    if !A::SPEC.migrate {
        return Err(Error::new(
            Status::Unimplemented,
            "no_migration",
            format!("{} has no migrate hook", A::SPEC.name),
        ));
    }
    let mut names = Names::default();
    names.read(turn);
    A::migrate_state(
        &Context::new(host.clone(), turn, names, Vec::new(), false),
        turn.stored_schema,
    )?;
    Ok(Payload::default())
}

#[cold]
fn unknown_turn(what: u8) -> Error {
    Error::new(
        Status::Unimplemented,
        "unknown_turn",
        format!("this module knows no turns of kind {what}; build it with a newer SDK"),
    )
}

#[cold]
fn unknown_method<A: Actor>(method: &str) -> Error {
    Error::new(
        Status::Unimplemented,
        "unknown_method",
        format!("{} has no method {method:?}", A::SPEC.name),
    )
}

/// Loads the state of the turn's actor.
fn load<A: Actor>(
    host: &dyn Host,
    turn: &TurnFrame<'_>,
    mut buffers: Buffers,
) -> Result<Box<Cached<A>>, Error> {
    buffers.spare.clear();
    buffers.spare.reserve(FIRST_SPARE);
    match host.state_json(&mut buffers.spare) {
        Ok(()) => {}
        Err(Code::NO_STATE) => buffers.spare.clear(),
        Err(code) => return Err(code.error("load the state")),
    };
    let actor = A::load(&buffers.spare).map_err(|e| bad_state::<A>(&e))?;
    if buffers.spare.capacity() > MAX_SPARE {
        buffers.spare = Vec::new();
    }
    // Compared with what the state looks like after the method, not with what is
    // stored: otherwise a turn that changes nothing would write defaults, or
    // numbers in another spelling.
    actor.save_to(&mut buffers.saved)?;
    buffers.names.read(turn);
    Ok(Box::new(Cached {
        revision: turn.revision,
        actor,
        buffers,
    }))
}

#[cold]
fn bad_state<A: Actor>(e: &Error) -> Error {
    Error::new(
        Status::FailedPrecondition,
        "bad_state",
        format!(
            "the stored state is no {}: {}; raise state_schema and add a migrate hook",
            A::SPEC.name,
            e.message()
        ),
    )
}

/// An error if the method changed the struct, by way of a `Cell` for example.
fn check_unchanged<A: Actor>(ctx: &Context, actor: &A, method: &str) -> Result<(), Error> {
    let (before, after) = (ctx.saved().borrow(), actor.save()?);
    let before = crate::json::members(&before)?;
    let after = crate::json::members(&after)?;
    let changed = after.iter().find(|member| !before.contains(member));
    match changed.or_else(|| before.iter().find(|member| !after.contains(member))) {
        None => Ok(()),
        Some((field, _)) => Err(Error::failed_precondition(
            "read_only",
            format!(
                "{}.{method} is read-only and changed the field {field:?}; take &mut self and &Context to change the actor",
                A::SPEC.name
            ),
        )),
    }
}

/// Saves what the method changed. What `spare` has means nothing, before and after.
fn save<A: Actor>(ctx: &Context, actor: &A, spare: &mut Vec<u8>) -> Result<(), Error> {
    if A::SPEC.placement == Placement::Stateless || ctx.passed() {
        return Ok(());
    }
    actor.save_to(spare)?;
    let saved = &mut *ctx.saved().borrow_mut();
    // After delete_all nothing is stored, and the method began anew with the first
    // value: what still is as in a new actor stays unstored.
    if ctx.deleted() == Deleted::KeysAndStruct {
        A::default().save_to(saved)?;
    }
    if text::same(spare, saved) {
        return Ok(());
    }
    if ctx.deleted() == Deleted::Keys {
        A::default().save_to(saved)?;
    }
    ctx.host()
        .state_patch(saved, spare)
        .map_err(|code| code.error("save the state"))?;
    std::mem::swap(saved, spare);
    ctx.note_patch();
    Ok(())
}

/// Runs `call`, which calls other actors. They may call this one back if a method of it is
/// reentrant: then the host knows the struct as it is before, and `actor` is what they have
/// made of it after.
pub(crate) fn calling<A: Actor, T>(
    ctx: &Context,
    actor: &mut A,
    call: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let spec = A::SPEC;
    let reentrant = spec.reentrant || spec.all_methods().any(|method| method.reentrant);
    if spec.placement == Placement::Stateless || !reentrant {
        return call();
    }
    save(ctx, actor, &mut Vec::new())?;
    let revision = ctx.host().state_revision();
    let result = call();
    if ctx.host().state_revision() != revision {
        let mut text = Vec::new();
        ctx.host()
            .state_json(&mut text)
            .map_err(|code| code.error("load the state"))?;
        *actor = A::load(&text).map_err(|e| bad_state::<A>(&e))?;
        actor.save_to(&mut ctx.saved().borrow_mut())?;
        ctx.note_patch();
    }
    result
}
