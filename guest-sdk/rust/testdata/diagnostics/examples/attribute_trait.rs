// says: #[greenroom::actor] goes over an `impl` block of the struct itself, not of a trait
// says: #[greenroom::actor(service = walletv1::WalletService)]

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

trait Add {
    fn add(&mut self, _: &Context, n: i64) -> Result<i64, Error>;
}

#[greenroom::actor]
impl Add for Cart {
    fn add(&mut self, _: &Context, n: i64) -> Result<i64, Error> {
        Ok(n)
    }
}

greenroom::module! { Cart }

fn main() {}
