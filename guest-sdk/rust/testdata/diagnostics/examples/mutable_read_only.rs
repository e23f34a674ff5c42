// says: {Cart::total}` is declared `read_only`, but its types let it change `Cart`
// says: write it as: fn name(&self, ctx: &ReadContext, argument: T) -> Result<R, Error>; or remove the word `read_only`

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

impl Cart {
    fn total(&mut self, _: &Context) -> Result<i64, Error> {
        Ok(self.total)
    }
}

greenroom::actors! { Cart { methods: { "Total" => read_only total } } }

fn main() {}
