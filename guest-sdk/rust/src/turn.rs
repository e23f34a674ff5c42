//! One turn: from the frame to the reply.
//!
//! The typed state of an actor is decoded once and kept between turns, tagged
//! with the actor's key and the revision of what it was decoded from. It is
//! dropped when either differs, when a turn fails, and when a method changed
//! keys behind its back. While a turn runs, it is not in the memory at all, so
//! a turn that traps or is entered again never finds a half-changed one.

use crate::actor::Actor;
use crate::codec::{self, TurnFrame};
use crate::context::{Context, Names};
use crate::convert::Payload;
use crate::error::{Error, Status};
use crate::host::{Code, Host};
use crate::spec::{self, Placement, TypeSpec};
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::rc::Rc;

/// The actor types of a module; [`actors!`](crate::actors) makes it.
#[doc(hidden)]
pub struct Module(&'static [Entry]);

/// One actor type of a module.
#[doc(hidden)]
pub struct Entry {
    spec: TypeSpec,
    run: RunFn,
}

/// [`run`] for one type.
type RunFn = fn(&RefCell<Memory>, &Rc<dyn Host>, &TurnFrame<'_>) -> Result<Payload, Error>;

impl Entry {
    /// The entry of `A`.
    pub const fn of<A: Actor>() -> Entry {
        Entry {
            spec: A::SPEC,
            run: run::<A>,
        }
    }
}

impl Module {
    /// A module with these types.
    pub const fn new(types: &'static [Entry]) -> Module {
        Module(types)
    }

    /// The module's manifest.
    pub fn manifest(&self) -> String {
        let specs: Vec<TypeSpec> = self.0.iter().map(|t| t.spec).collect();
        spec::manifest(&specs)
    }

    #[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))]
    pub(crate) fn turn(&self, memory: &RefCell<Memory>, host: &Rc<dyn Host>, frame: &[u8]) -> i32 {
        let result = codec::decode_turn(frame)
            .map_err(|e| Error::new(Status::Internal, "bad_frame", e.to_string()))
            .and_then(|turn| {
                let entry = self.0.iter().find(|t| t.spec.name == turn.actor_type);
                match entry {
                    Some(entry) => (entry.run)(memory, host, &turn),
                    None => Err(Error::new(
                        Status::Unimplemented,
                        "unknown_type",
                        format!("the module has no actor type {:?}", turn.actor_type),
                    )),
                }
            });
        finish(host.as_ref(), result)
    }
}

/// Hands the outcome to the host. Returns what the turn export returns.
pub(crate) fn finish(host: &dyn Host, result: Result<Payload, Error>) -> i32 {
    let result = result.and_then(|reply| {
        host.reply(&reply.content_type, &reply.body)
            .map_err(|code| code.error("reply"))
    });
    let error = match result {
        Ok(()) => return 0,
        Err(error) => error,
    };
    if host.fail(&error.to_frame()).is_err() {
        host.log(8, &format!("the host refused the error frame of: {error}"));
    }
    1
}

/// What an instance keeps between turns: for each actor type the typed state of
/// the actor that it served last.
#[derive(Default)]
pub(crate) struct Memory(Vec<(TypeId, Box<dyn Any>)>);

struct Kept<A> {
    names: Names,
    revision: u64,
    loaded: Loaded<A>,
}

/// A typed state and the JSON that it was last in step with.
struct Loaded<A> {
    actor: A,
    saved: Vec<u8>,
}

impl Memory {
    fn take<A: Actor>(&mut self) -> Option<Kept<A>> {
        let i = self.0.iter().position(|(t, _)| *t == TypeId::of::<A>())?;
        let (_, kept) = self.0.swap_remove(i);
        kept.downcast().ok().map(|kept| *kept)
    }

    fn keep<A: Actor>(&mut self, kept: Kept<A>) {
        self.take::<A>();
        self.0.push((TypeId::of::<A>(), Box::new(kept)));
    }
}

/// Runs one turn of an actor of type `A`.
pub(crate) fn run<A: Actor>(
    memory: &RefCell<Memory>,
    host: &Rc<dyn Host>,
    turn: &TurnFrame<'_>,
) -> Result<Payload, Error> {
    let kept = memory.borrow_mut().take::<A>();
    match turn.what {
        codec::WHAT_METHOD => {}
        codec::WHAT_MIGRATE => return migrate::<A>(host, turn),
        what => {
            return Err(Error::new(
                Status::Unimplemented,
                "unknown_turn",
                format!("this module knows no turns of kind {what}; build it with a newer SDK"),
            ))
        }
    }
    let read_only = match A::SPEC.method(turn.method) {
        Some(method) => method.read_only || turn.flags & codec::FLAG_READ_ONLY != 0,
        None => return Err(unknown_method::<A>(turn.method)),
    };
    let mut ctx = Context::new(host.clone(), turn, read_only);
    let mut loaded = match kept {
        Some(kept) if kept.revision == turn.revision && kept.names.same_actor(turn) => kept.loaded,
        _ => load::<A>(host.as_ref())?,
    };
    let reply = loaded
        .actor
        .call(&mut ctx, turn.method, turn.content_type, turn.payload)
        .unwrap_or_else(|| Err(unknown_method::<A>(turn.method)))?;
    if !read_only {
        save(host.as_ref(), &ctx, &mut loaded)?;
    }
    if !ctx.keys_changed() && A::SPEC.placement != Placement::Stateless {
        let kept = Kept {
            names: ctx.into_names(),
            revision: host.state_revision(),
            loaded,
        };
        memory.borrow_mut().keep(kept);
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
    A::migrate(
        &mut Context::new(host.clone(), turn, false),
        turn.stored_schema,
    )?;
    Ok(Payload::default())
}

fn unknown_method<A: Actor>(method: &str) -> Error {
    Error::new(
        Status::Unimplemented,
        "unknown_method",
        format!("{} has no method {method:?}", A::SPEC.name),
    )
}

fn load<A: Actor>(host: &dyn Host) -> Result<Loaded<A>, Error> {
    let stored = match host.state_json() {
        Ok(text) => text,
        Err(Code::NO_STATE) => Vec::new(),
        Err(code) => return Err(code.error("load the state")),
    };
    let actor = A::load(&stored).map_err(|e| {
        Error::new(
            Status::FailedPrecondition,
            "bad_state",
            format!(
                "the stored state is no {}: {}; raise state_schema and add a migrate hook",
                A::SPEC.name,
                e.message()
            ),
        )
    })?;
    // Compared with what the state looks like after the method, not with what is
    // stored: otherwise a turn that changes nothing would write defaults, or
    // numbers in another spelling.
    let saved = actor.save()?;
    Ok(Loaded { actor, saved })
}

fn save<A: Actor>(host: &dyn Host, ctx: &Context, loaded: &mut Loaded<A>) -> Result<(), Error> {
    if A::SPEC.placement == Placement::Stateless {
        return Ok(());
    }
    let after = loaded.actor.save()?;
    if after == loaded.saved {
        return Ok(());
    }
    // After delete_all nothing is stored, so what still is as in a new actor
    // stays unstored.
    let before = if ctx.all_deleted() {
        A::default().save()?
    } else {
        std::mem::take(&mut loaded.saved)
    };
    host.state_patch(&before, &after)
        .map_err(|code| code.error("save the state"))?;
    loaded.saved = after;
    Ok(())
}
