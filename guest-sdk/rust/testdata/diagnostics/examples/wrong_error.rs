// says: a method cannot fail with `ParseIntError`: there is no `From<ParseIntError>` for `greenroom::Error`
// says: ::add}` fails with `ParseIntError`
// says: for an error type of your own, write `impl From<ParseIntError> for greenroom::Error`
// says: `.code("bad_number")?`

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

impl Cart {
    fn add(&mut self, _: &Context, n: String) -> Result<i64, std::num::ParseIntError> {
        self.total += n.parse::<i64>()?;
        Ok(self.total)
    }
}

greenroom::actors! { Cart { methods: { "Add" => add } } }

fn main() {}
