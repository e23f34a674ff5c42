// says: {Cart::add}` does not have the form of a method of `Cart`
// says: for several of them make a struct

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

impl Cart {
    fn add(&mut self, _: &Context, n: i64, times: i64) -> Result<i64, Error> {
        self.total += n * times;
        Ok(self.total)
    }
}

greenroom::actors! { Cart { methods: { "Add" => add } } }

fn main() {}
