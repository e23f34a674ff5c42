// says: the trait bound `Cart: ShopActor` is not satisfied

use greenroom::prelude::*;

// As `greenroom generate` writes it.
mod shop {
    use greenroom::protobuf::{Called, Protobuf, Rpc, Service};
    use greenroom::{Context, Error, Payload};

    pub trait ShopActor: Sized {
        fn buy(&mut self, ctx: &Context, request: Payload) -> Result<Payload, Error>;
    }

    pub struct Shop;

    impl<A: ShopActor> Service<A> for Shop {
        const PROTOBUF: Protobuf = Protobuf::NONE;

        fn call(rpc: Rpc<'_, A>) -> Called {
            rpc.run(<A as ShopActor>::buy)
        }
    }
}

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

#[greenroom::actor(service = shop::Shop)]
impl Cart {
    fn add(&mut self, _: &Context, n: i64) -> Result<i64, Error> {
        self.total += n;
        Ok(self.total)
    }
}

greenroom::module! { Cart }

fn main() {}
