// says: `Cart` cannot be the state of an actor
// says: write `#[derive(Default, Serialize, Deserialize)]` over it

use greenroom::prelude::*;

struct Cart {
    total: i64,
}

#[greenroom::actor]
impl Cart {
    fn view(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.total)
    }
}

greenroom::module! { Cart }

fn main() {}
