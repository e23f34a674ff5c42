// says: placement is one of: any, ring, sticky, stateless
// says: a method's options are: name = "…", read_only, idempotent, reentrant, private

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

#[greenroom::actor(placement = stiky, migrate = migrate)]
impl Cart {
    #[method(readonly)]
    fn view(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.total)
    }
}

greenroom::module! { Cart }

fn main() {}
