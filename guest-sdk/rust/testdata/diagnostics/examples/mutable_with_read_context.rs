// says: {Cart::add}` does not have the form of a method of `Cart`
// says: a read-only method is written: fn name(&self, ctx: &ReadContext, argument: T) -> Result<R, Error>

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

impl Cart {
    fn add(&mut self, _: &ReadContext, n: i64) -> Result<i64, Error> {
        self.total += n;
        Ok(self.total)
    }
}

greenroom::actors! { Cart { methods: { "Add" => add } } }

fn main() {}
