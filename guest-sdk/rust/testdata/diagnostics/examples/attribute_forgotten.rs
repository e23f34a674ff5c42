// says: `Cart` is not an actor type
// says: write `#[greenroom::actor]` over the `impl` block that has its methods, or list it in `greenroom::actors!`

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

impl Cart {
    pub fn view(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.total)
    }
}

greenroom::module! { Cart }

fn main() {}
