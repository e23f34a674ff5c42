// says: a method returns a `Result`, and not `i64`
// says: ::add}` returns `i64`
// says: write `-> Result<i64, Error>`, and `Ok(…)` around what it returns

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

impl Cart {
    fn add(&mut self, _: &Context, n: i64) -> i64 {
        self.total += n;
        self.total
    }
}

greenroom::actors! { Cart { methods: { "Add" => add } } }

fn main() {}
