//! The guest of wasm_test.go: what only a real module can show.

use greenroom::prelude::*;
use greenroom::{eprintln, println, FromJson, ToJson};
use std::cell::Cell;

greenroom::record! {
    #[derive(Default)]
    pub struct Kit {
        n: i64,
    }
}

impl Kit {
    fn add(&mut self, _: &Context, n: i64) -> Result<i64, Error> {
        self.n += n;
        Ok(self.n)
    }

    fn get(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.n)
    }

    fn fail(&mut self, _: &Context) -> Result<(), Error> {
        self.n = -1;
        let error = Error::resource_exhausted("out_of_stock", "only 3 left 💚");
        let delay = std::time::Duration::from_millis(1500);
        Err(error.with_detail(&vec![3]).retry_after(delay))
    }

    fn panic(&mut self, _: &Context, why: String) -> Result<(), Error> {
        self.n = -1;
        panic!("{}", why);
    }

    /// Makes keys and values that fit no first buffer.
    fn fill(&mut self, ctx: &Context, count: u64) -> Result<u64, Error> {
        for i in 0..count {
            let key = format!("key/{i:0>100}");
            ctx.state().set_bytes(&key, &vec![i as u8; 1000])?;
        }
        ctx.state().set("text", &"é".repeat(2000))?;
        let mut bytes = 0;
        for key in ctx.state().keys("key/")? {
            bytes += ctx.state().get_bytes(&key)?.map_or(0, |v| v.len() as u64);
        }
        for entry in ctx.state().each::<String>("te") {
            bytes += entry?.1.len() as u64;
        }
        Ok(bytes)
    }

    fn clear(&mut self, ctx: &Context) -> Result<u32, Error> {
        ctx.state().delete_all(self)
    }

    /// Who runs, when, and a random number, as text.
    fn turn(&self, ctx: &ReadContext) -> Result<Vec<String>, Error> {
        ctx.info("turn 💚");
        Ok(vec![
            ctx.key().to_string(),
            ctx.now_unix_nanos().to_string(),
            ctx.random_u64().to_string(),
        ])
    }

    fn print(&mut self, _: &Context, text: String) -> Result<(), Error> {
        println!("out {}", text);
        eprintln!("err {text}");
        println!();
        Ok(())
    }

    fn echo(&mut self, _: &Context, payload: Payload) -> Result<Payload, Error> {
        Ok(payload)
    }

    fn recurse(&mut self, ctx: &Context, depth: u64) -> Result<u64, Error> {
        let mut used = [depth; 64];
        if depth < u64::MAX {
            used[(depth % 64) as usize] = self.recurse(ctx, depth + 1)?;
        }
        Ok(used.iter().sum())
    }
}

/// A number that a shared reference can change.
#[derive(Default)]
pub struct Seen(Cell<u32>);

impl ToJson for Seen {
    fn to_json(&self) -> Result<Vec<u8>, Error> {
        self.0.get().to_json()
    }
}

impl FromJson for Seen {
    fn from_json(text: &[u8]) -> Result<Seen, Error> {
        u32::from_json(text).map(|n| Seen(Cell::new(n)))
    }
}

greenroom::record! {
    #[derive(Default)]
    pub struct Peeker {
        seen: Seen,
    }
}

impl Peeker {
    /// Changes its state, which is an error.
    fn look(&self, _: &ReadContext) -> Result<u32, Error> {
        self.seen.0.set(self.seen.0.get() + 1);
        Ok(self.seen.0.get())
    }

    fn seen(&self, _: &ReadContext) -> Result<u32, Error> {
        Ok(self.seen.0.get())
    }
}

greenroom::actors! {
    Kit as "kit.Kit" {
        methods: {
            "Add" => add,
            "Get" => read_only get,
            "Fail" => fail,
            "Panic" => panic,
            "Fill" => fill,
            "Clear" => clear,
            "Turn" => read_only turn,
            "Print" => print,
            "Echo" => echo,
            "Recurse" => recurse,
        },
        limits: { memory_bytes: 4 << 20 },
    }
    Peeker as "kit.Peeker" {
        methods: { "Look" => read_only look, "Seen" => read_only seen },
    }
}
