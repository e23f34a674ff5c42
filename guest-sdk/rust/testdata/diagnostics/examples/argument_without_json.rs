// says: `Line` cannot be the argument of a method
// says: ::add}` cannot be read from JSON
// says: write `#[derive(Deserialize)]` over it; without, declare it in `greenroom::record!`

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

struct Line {
    count: i64,
}

impl Cart {
    fn add(&mut self, _: &Context, line: Line) -> Result<i64, Error> {
        self.total += line.count;
        Ok(self.total)
    }
}

greenroom::actors! { Cart { methods: { "Add" => add } } }

fn main() {}
