// says: a method cannot answer with `Summary`
// says: ::sum}` cannot be written as JSON
// says: write `#[derive(Serialize)]` over it; without, declare it in `greenroom::record!`

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

pub struct Summary {
    pub total: i64,
}

impl Cart {
    fn sum(&self, _: &ReadContext) -> Result<Summary, Error> {
        Ok(Summary { total: self.total })
    }
}

greenroom::actors! { Cart { methods: { "Sum" => sum } } }

fn main() {}
