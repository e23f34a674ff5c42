//! The guest of the benchmarks of reminders: the counter of bench/guest, whose turns set,
//! cancel and are run by reminders.

use greenroom::prelude::*;
use greenroom::Reminder;
use std::time::Duration;

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

    /// Makes the actor carry that many bytes, which no other method touches.
    fn fill(&mut self, ctx: &Context, bytes: u64) -> Result<(), Error> {
        ctx.state().set_bytes(BALLAST, &vec![7; bytes as usize])
    }
}

greenroom::actors! {
    Counter {
        methods: {
            "Add" => add,
            "Remind" => remind,
            "Toggle" => toggle,
            "Fill" => fill,
        },
    }
}
