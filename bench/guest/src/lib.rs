//! The guest of the benchmarks: a counter beside a block of bytes that brings
//! the stored state to the size that a bar asks for.

use greenroom::prelude::*;

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
}

greenroom::record! {
    /// A counter whose activations have instances of their own.
    #[derive(Default)]
    pub struct Pinned {
        count: i64,
    }
}

impl Pinned {
    fn add(&mut self, _: &Context, amount: i64) -> Result<i64, Error> {
        self.count += amount;
        Ok(self.count)
    }

    /// Reads in a turn that might write: what it costs is the activation.
    fn look(&mut self, _: &Context) -> Result<i64, Error> {
        Ok(self.count)
    }
}

greenroom::actors! {
    Pinned {
        methods: {
            "Add" => add,
            "Look" => look,
        },
        instance: dedicated,
    }
    Counter {
        methods: {
            "Add" => add,
            "Get" => read_only get,
            "Fill" => fill,
        },
    }
}
