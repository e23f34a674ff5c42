//! The guest of the benchmarks of volatile messages: the actors `a0` and `b0` tell each other, and
//! so on. Their turns change nothing. Each may be asked to publish events.

use greenroom::prelude::*;
use greenroom::Ref;

greenroom::record! {
    #[derive(Default)]
    pub struct Teller {}
}

greenroom::record! {
    /// An event of 4 KB.
    #[derive(Default)]
    pub struct Announced { pub n: i64, pub ballast: String }
}

/// The other one of a pair.
fn peer(id: &str) -> Ref {
    let other = if id.starts_with('a') { "b" } else { "a" };
    Ref::of::<Teller>(format!("{other}{}", &id[1..]))
}

impl Teller {
    /// Tells the other one so many numbers.
    fn say(&mut self, ctx: &Context, count: i64) -> Result<(), Error> {
        let to = peer(ctx.id());
        (0..count).try_for_each(|n| to.message("Hear", &n).tell(ctx))
    }

    fn hear(&mut self, _: &Context, _: i64) -> Result<(), Error> {
        Ok(())
    }

    /// Passes the ball on, so many times.
    fn ping(&mut self, ctx: &Context, left: i64) -> Result<(), Error> {
        if left == 0 {
            return Ok(());
        }
        peer(ctx.id()).message("Ping", &(left - 1)).tell(ctx)
    }

    /// Publishes an event with a number.
    fn announce(&mut self, ctx: &Context, n: i64) -> Result<(), Error> {
        ctx.publish("announced", Announced { n, ballast: "x".repeat(4000) })
    }
}

greenroom::actors! {
    Teller { methods: { "Say" => say, "Hear" => hear, "Ping" => ping, "Announce" => announce } }
}
