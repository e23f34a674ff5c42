//! The guest of the area chains: the counter of bench/guest, which also moves one of what it
//! counts to another counter in one transaction.

use greenroom::prelude::*;
use greenroom::Ref;

/// The key of the bytes that a counter carries along.
const BALLAST: &str = "ballast";

greenroom::record! {
    #[derive(Default)]
    pub struct Counter {
        count: i64,
    }
}

impl Counter {
    fn add(&mut self, _: &Context, amount: i64) -> Result<i64, Error> {
        self.count += amount;
        Ok(self.count)
    }

    fn get(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.count)
    }

    /// Makes the actor carry that many bytes, which no other method touches.
    fn fill(&mut self, ctx: &Context, bytes: u64) -> Result<(), Error> {
        ctx.state().set_bytes(BALLAST, &vec![7; bytes as usize])
    }

    /// Moves one to the counter of that number.
    fn transfer(&mut self, ctx: &Context, to: u64) -> Result<i64, Error> {
        self.count -= 1;
        Ref::new("Counter", format!("c{}", to))
            .message("Add", &1i64)
            .call(ctx, self)
    }
}

greenroom::actors! {
    Counter {
        methods: {
            "Add" => add,
            "Get" => read_only get,
            "Fill" => fill,
            "Transfer" => transfer,
        },
    }
}
