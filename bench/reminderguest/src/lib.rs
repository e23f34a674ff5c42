//! The guest of the benchmarks of reminders: the counter of bench/guest, whose turns set,
//! cancel and are run by reminders.

use greenroom::prelude::*;
use greenroom::Reminder;
use std::time::{Duration, SystemTime};

/// The key of the bytes that a counter carries along.
const BALLAST: &str = "ballast";

/// Reminders that are set and not fired are due in a year.
const LATER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

greenroom::record! {
    #[derive(Default)]
    pub struct Counter {
        count: i64,
    }
}

impl Counter {
    /// The turn without a reminder; a firing runs it as well.
    fn add(&mut self, _: &Context, amount: i64) -> Result<i64, Error> {
        self.count += amount;
        Ok(self.count)
    }

    /// The same turn, and a reminder of a new name.
    fn remind(&mut self, ctx: &Context, amount: i64) -> Result<i64, Error> {
        self.count += amount;
        let name = format!("r{}", self.count);
        ctx.reminders().set(Reminder::once(name, "Add", LATER).input(&amount))?;
        Ok(self.count)
    }

    /// The same turn, which sets a reminder, or cancels the one that the turn before has
    /// set.
    fn toggle(&mut self, ctx: &Context, amount: i64) -> Result<i64, Error> {
        self.count += amount;
        let name = format!("t{}", self.count / 2);
        if self.count % 2 == 0 {
            ctx.reminders().set(Reminder::once(name, "Add", LATER).input(&amount))?;
        } else {
            ctx.reminders().cancel(&name)?;
        }
        Ok(self.count)
    }

    fn get(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.count)
    }

    /// Makes the actor carry that many bytes, which no other method touches.
    fn fill(&mut self, ctx: &Context, bytes: u64) -> Result<(), Error> {
        ctx.state().set_bytes(BALLAST, &vec![7; bytes as usize])
    }
}

greenroom::record! {
    /// An actor that writes down what fires.
    #[derive(Default)]
    pub struct Alarm {
        /// The names of the reminders, in the order of their firings.
        names: Vec<String>,
        /// How many microseconds after its time each firing began.
        late: Vec<i64>,
    }
}

greenroom::record! {
    /// What an alarm wrote down.
    #[derive(Default)]
    pub struct Fired {
        names: Vec<String>,
        late: Vec<i64>,
    }
}

impl Alarm {
    fn ring(&mut self, ctx: &Context, _: ()) -> Result<(), Error> {
        let cause = ctx.cause();
        let micros = |from: SystemTime, to: SystemTime| {
            to.duration_since(from).map(|d| d.as_micros() as i64)
        };
        let late = micros(cause.due, ctx.now())
            .or_else(|_| micros(ctx.now(), cause.due).map(|early| -early))
            .unwrap_or_default();
        self.names.push(cause.name);
        self.late.push(late);
        Ok(())
    }

    fn fired(&self, _: &ReadContext) -> Result<Fired, Error> {
        Ok(Fired { names: self.names.clone(), late: self.late.clone() })
    }
}

greenroom::actors! {
    Alarm {
        methods: {
            "Ring" => ring,
            "Fired" => read_only fired,
        },
    }
    Counter {
        methods: {
            "Add" => add,
            "Get" => read_only get,
            "Remind" => remind,
            "Toggle" => toggle,
            "Fill" => fill,
        },
    }
}
