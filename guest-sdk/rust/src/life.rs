//! What an actor does about its own life, and others': `abi/SPEC.md` section 5.

use crate::actor::Actor;
use crate::address::Ref;
use crate::context::{direct, Context, ReadContext};
use crate::error::{Error, Status};
use crate::host::Code;
use crate::reminder::{doing, problem};

/// No actor stands for the service.
pub const SERVICE_NOT_FOUND: &str = "service_not_found";
/// The method is not in the set of methods that the actor accepts. It did not run.
pub const NOT_ACCEPTED: &str = "not_accepted";
/// The actor was spawned and has passed away, or nobody has spawned it although its type
/// says `spawn_only`. The method did not run.
pub const PASSED_AWAY: &str = "passed_away";
/// Another actor stands for the service.
pub const TAKEN: &str = "taken";
/// The turn has ended its actor's life.
pub const LIFE_OVER: &str = "life_over";

impl Ref {
    /// The actor that stands for a service; see [`Context::claim`]. It is a `Ref` without a
    /// type.
    #[must_use]
    pub fn service(name: impl Into<String>) -> Ref {
        Ref::new("", name)
    }
}

impl ReadContext {
    /// The set of methods that the actor accepts in this turn, as [`Context::become_`] has
    /// chosen it before; empty: all.
    #[must_use]
    pub fn method_set(&self) -> &str {
        self.set()
    }
}

impl Context {
    /// Makes a new actor of the type `A`, with an ID that no other actor has; a turn that runs
    /// again gets the same one. The actor exists when the turn has committed: the turn itself
    /// can send it messages, and cannot call it ([`NOT_ATOMIC`](crate::call::NOT_ATOMIC)).
    ///
    /// # Errors
    ///
    /// `invalid_type`: the app has no such type, or a stateless one; `not_ready`: the host
    /// cannot say now.
    pub fn spawn<A: Actor>(&self) -> Result<Ref, Error> {
        self.spawn_named(A::SPEC.name)
    }

    /// As [`spawn`](Context::spawn), with the name of a type of the app.
    ///
    /// # Errors
    ///
    /// As those of [`spawn`](Context::spawn).
    pub fn spawn_named(&self, actor_type: &str) -> Result<Ref, Error> {
        match direct!(self, spawn(actor_type)) {
            Ok(id) => Ok(Ref::new(actor_type, id)),
            Err(code) => Err(refused(
                self,
                code,
                &doing("spawn", "type", actor_type),
                "invalid_type",
            )),
        }
    }

    /// Has the actor accept only the methods of a set, which are declared with
    /// `#[method(in = "…")]`, and those that are in no set, from its next turn on. `""` is
    /// all methods.
    ///
    /// # Errors
    ///
    /// `invalid_set`: no method of the type is in it; [`LIFE_OVER`](crate::life::LIFE_OVER).
    pub fn become_(&self, set: &str) -> Result<(), Error> {
        direct!(self, become_(set))
            .map_err(|code| refused(self, code, &doing("become", "set", set), "invalid_set"))
    }

    /// Ends the actor's life with the turn: its state, reminders, timers, subscriptions and
    /// services are gone, and messages that wait for it are undelivered. It is the last thing that a turn
    /// does to its actor; what the turn has made of the state is dropped. Later calls meet an
    /// empty actor, unless it was spawned: then it stays dead.
    ///
    /// # Errors
    ///
    /// `no_state`: the type is stateless; [`LIFE_OVER`](crate::life::LIFE_OVER).
    pub fn pass_away(&self) -> Result<(), Error> {
        direct!(self, pass_away())
            .map_err(|code| refused(self, code, "pass away", "invalid_life"))?;
        self.note_passed();
        Ok(())
    }

    /// Has the actor stand for a service, a name of the app: calls and messages to
    /// [`Ref::service`] of it go to this actor.
    ///
    /// # Errors
    ///
    /// [`TAKEN`](crate::life::TAKEN): another actor stands for it; `invalid_service`: the
    /// name is none.
    pub fn claim(&self, service: &str) -> Result<(), Error> {
        let doing = doing("claim", "service", service);
        direct!(self, service_claim(service))
            .map_err(|code| refused(self, code, &doing, "invalid_service"))
    }

    /// Ends that the actor stands for a service, and says whether it did.
    ///
    /// # Errors
    ///
    /// `invalid_service`: the name is none.
    pub fn release(&self, service: &str) -> Result<bool, Error> {
        let doing = doing("release", "service", service);
        direct!(self, service_release(service))
            .map_err(|code| refused(self, code, &doing, "invalid_service"))
    }
}

/// The error of a code that a function of messages or of the actor's life has answered.
/// `invalid` is that of what cannot be.
#[cold]
pub(crate) fn refused(ctx: &ReadContext, code: Code, doing: &str, invalid: &str) -> Error {
    let (status, name, otherwise) = match code {
        Code::INVALID => (Status::InvalidArgument, invalid, "it cannot be"),
        Code::TOO_MANY => (
            Status::ResourceExhausted,
            "too_many",
            "the turn has done that as often as it may",
        ),
        Code::TOO_LARGE => (
            Status::ResourceExhausted,
            "too_large",
            "it is above the host's limit",
        ),
        Code::NOT_READY => (Status::Unavailable, "not_ready", "the host cannot say now"),
        Code::FULL => (
            Status::ResourceExhausted,
            "inbox_full",
            "the receiver has as many messages as it may",
        ),
        Code::TAKEN => (
            Status::AlreadyExists,
            TAKEN,
            "another actor stands for the service",
        ),
        Code::NOT_FOUND => (
            Status::NotFound,
            SERVICE_NOT_FOUND,
            "no actor stands for the service",
        ),
        code => return code.error(doing),
    };
    let problem = problem(ctx);
    let why = if problem.is_empty() {
        otherwise
    } else {
        &problem
    };
    let error = Error::new(status, name, format!("{doing}: {why}"));
    match code {
        Code::NOT_READY | Code::FULL => error.retryable(),
        _ => error,
    }
}
