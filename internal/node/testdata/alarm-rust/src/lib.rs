//! A guest whose actors set reminders, and count what fires.

use greenroom::prelude::*;
use greenroom::Reminder;
use std::time::Duration;

/// Counts its firings.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Clock {
    rung: i64,
    last: String,
}

#[greenroom::actor]
impl Clock {
    fn start(&mut self, ctx: &Context, times: u32) -> Result<(), Error> {
        let tick = Reminder::new("tick", "Tick")
            .input("tock")
            .every(Duration::from_millis(5))
            .times(times)
            .metadata("by", "rust");
        ctx.reminders().set(tick)
    }

    fn tick(&mut self, ctx: &Context, input: String) -> Result<(), Error> {
        let cause = ctx.cause();
        self.rung += 1 + i64::from(cause.missed);
        self.last = format!("{} {input} {:?}", cause.name, cause.metadata);
        Ok(())
    }

    fn stop(&mut self, ctx: &Context) -> Result<(), Error> {
        ctx.reminders().cancel("tick")
    }

    fn view(&self, ctx: &ReadContext) -> Result<(i64, String, Vec<String>), Error> {
        Ok((self.rung, self.last.clone(), ctx.reminders().names("")?))
    }
}

greenroom::module! { Clock }
