// says: `reference` needs to see what `view` answers: write `-> Result<T, E>`

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

type Answer = Result<i64, Error>;

#[greenroom::actor(reference = CartRef)]
impl Cart {
    fn view(&self, _: &ReadContext) -> Answer {
        Ok(self.total)
    }
}

greenroom::module! { Cart }

fn main() {}
