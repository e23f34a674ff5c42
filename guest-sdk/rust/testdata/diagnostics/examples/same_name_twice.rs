// says: two actor types of the module have the same name; give one of them another: `Type as "shop.Type"`

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

mod other {
    greenroom::record! {
        #[derive(Default)]
        pub struct Cart { total: i64 }
    }
    impl Cart {
        pub fn total(&self, _: &greenroom::ReadContext) -> Result<i64, greenroom::Error> {
            Ok(self.total)
        }
    }
}

impl Cart {
    fn total(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.total)
    }
}

greenroom::actors! {
    Cart { methods: { "Total" => total } }
    other::Cart { methods: { "Total" => total } }
}

fn main() {}
