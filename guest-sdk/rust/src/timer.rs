//! Volatile calls of an actor's own methods: `abi/SPEC.md` section 5.

use crate::codec::{self, ReminderFrame};
use crate::context::{direct, Context};
use crate::convert::{Payload, ToJson};
use crate::error::{Error, Status};
use crate::host::Code;
use crate::reminder::{doing, nanos, problem};
use std::time::Duration;

/// A volatile call of a method of the actor itself, after a while or again and again:
/// cheap, and kept in the memory of the actor's host alone. It is lost when the actor
/// leaves memory, moves to another host or is deleted, and when the host ends; it does
/// not keep its actor in memory, and its turns are no use of it. What must happen is for
/// a [`Reminder`](crate::Reminder).
///
/// A firing is a turn like another; see [`ReadContext::cause`](crate::ReadContext::cause).
/// One whose turn fails is not repeated; the next period fires all the same.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Timer {
    /// 1 to 256 bytes without control characters. One timer of an actor has it: setting
    /// it again replaces what there was.
    pub name: String,
    /// What a firing runs. It must not be read-only.
    pub method: String,
    /// The method's input, at most 65536 bytes.
    pub input: Payload,
    /// When it fires first, from the end of the turn that sets it. Zero: then, or after
    /// one period.
    pub after: Duration,
    /// How long after the end of its last turn it fires again, at least a millisecond;
    /// zero: it fires once.
    pub every: Duration,
    /// Why the input is none.
    unfit: Option<String>,
}

impl Timer {
    /// A timer that fires at once, and once: the others change that.
    #[must_use]
    pub fn new(name: impl Into<String>, method: impl Into<String>) -> Timer {
        Timer {
            name: name.into(),
            method: method.into(),
            ..Timer::default()
        }
    }

    /// A timer that fires once, after `delay`.
    #[must_use]
    pub fn once(name: impl Into<String>, method: impl Into<String>, delay: Duration) -> Timer {
        Timer::new(name, method).after(delay)
    }

    /// Sets the method's input.
    #[must_use]
    pub fn input<T: ToJson + ?Sized>(mut self, input: &T) -> Timer {
        match input.to_json() {
            Ok(body) => self.input = Payload::new("", body),
            Err(e) => self.unfit = Some(e.message().to_string()),
        }
        self
    }

    /// Sets the method's input, for one that does not speak JSON.
    #[must_use]
    pub fn payload(mut self, payload: Payload) -> Timer {
        self.input = payload;
        self
    }

    /// Sets when it fires first, from the end of the turn.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Timer {
        self.after = delay;
        self
    }

    /// Sets the period.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Timer {
        self.every = period;
        self
    }

    fn frame(&self) -> Result<ReminderFrame<'_>, String> {
        Ok(ReminderFrame {
            name: &self.name,
            method: &self.method,
            content_type: &self.input.content_type,
            payload: &self.input.body,
            delay_nano: nanos("delay", self.after)?,
            period_nano: nanos("period", self.every)?,
            ..ReminderFrame::default()
        })
    }
}

/// Sets and cancels the actor's timers; from [`Context::timers`].
///
/// Changes are part of the turn, like those of the state: when it fails, there were none.
#[derive(Clone, Copy, Debug)]
pub struct TimerWriter<'c> {
    ctx: &'c Context,
}

impl Context {
    /// The actor's timers.
    ///
    /// ```
    /// # use greenroom::prelude::*;
    /// # use greenroom::Timer;
    /// # use std::time::Duration;
    /// # struct Document;
    /// # impl Document {
    /// fn edit(&mut self, ctx: &Context) -> Result<(), Error> {
    ///     ctx.timers().set(Timer::once("publish", "Publish", Duration::from_secs(2)))
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn timers(&self) -> TimerWriter<'_> {
        TimerWriter { ctx: self }
    }
}

impl TimerWriter<'_> {
    /// Sets a timer, in the place of one of the same name.
    ///
    /// # Errors
    ///
    /// `invalid_timer`: it cannot be, and the message says what to change; `too_many`,
    /// `too_large`: an actor has at most 100 timers, with 262144 bytes together;
    /// `not_ready`: the host has no memory for it now.
    pub fn set(&self, timer: Timer) -> Result<(), Error> {
        let name = &timer.name;
        if let Some(why) = &timer.unfit {
            let message = format!("set timer {name:?}: the input has no JSON form: {why}");
            return Err(Error::new(Status::Internal, "not_json", message));
        }
        let frame = timer.frame().map_err(|problem| {
            let message = format!("set timer {name:?}: {problem}");
            Error::new(Status::InvalidArgument, "invalid_timer", message)
        })?;
        match direct!(self.ctx, timer_set(&codec::encode_reminder(&frame))) {
            Ok(_) => Ok(()),
            Err(code) => Err(self.refused(code, "set", name)),
        }
    }

    /// Ends a timer, and says whether there was one. One that waits for its turn already
    /// does not fire any more.
    ///
    /// # Errors
    ///
    /// `invalid_timer`: the name is none.
    pub fn cancel(&self, name: &str) -> Result<bool, Error> {
        direct!(self.ctx, timer_cancel(name)).map_err(|code| self.refused(code, "cancel", name))
    }

    #[cold]
    fn refused(&self, code: Code, op: &str, name: &str) -> Error {
        let doing = doing(op, "timer", name);
        let (status, name) = match code {
            Code::INVALID => (Status::InvalidArgument, "invalid_timer"),
            Code::TOO_MANY => (Status::ResourceExhausted, "too_many"),
            Code::TOO_LARGE => (Status::ResourceExhausted, "too_large"),
            Code::NOT_READY => {
                let message = match problem(self.ctx) {
                    none if none.is_empty() => format!("{doing}: the host cannot say now"),
                    problem => format!("{doing}: {problem}"),
                };
                return Error::new(Status::Unavailable, "not_ready", message).retryable();
            }
            code => return code.error(&doing),
        };
        let problem = problem(self.ctx);
        Error::new(status, name, format!("{doing}: {problem}"))
    }
}
