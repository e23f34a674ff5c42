// says: {Cart::add}` does not have the form of a method of `Cart`
// says: a method that changes the actor is written: fn name(&mut self, ctx: &Context, argument: T) -> Result<R, Error>
// says: the context is always there, as `_: &Context` if it is not used

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

impl Cart {
    fn add(&mut self, n: i64) -> Result<i64, Error> {
        self.total += n;
        Ok(self.total)
    }
}

greenroom::actors! { Cart { methods: { "Add" => add } } }

fn main() {}
