//! What the shop sells, and what it is paid with. Carts and orders are actors of another
//! module, in Go.

mod stock;
mod wallet;

pub use stock::Stock;
pub use wallet::{Bill, Wallet};

greenroom::module! { stock::Stock, wallet::Wallet }
