//! The wallet of one customer.

use greenroom::prelude::*;
use greenroom::Ref;

/// The state of a wallet. Amounts are in cents.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Wallet {
    cents: i64,
}

/// What an order is paid with.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Bill {
    /// The ID of the order.
    pub order: String,
    /// What it costs.
    pub cents: i64,
}

// A bill is tried four times within some seconds; then the order gets it back.
#[greenroom::actor(messages(attempts = 4, interval_ms = 200, max_ms = 1000))]
impl Wallet {
    /// Adds money. Answers the balance.
    fn deposit(&mut self, _: &Context, cents: i64) -> Result<i64, Error> {
        let bad = || Error::invalid_argument("bad_amount", "give an amount above zero");
        ensure!(cents > 0, bad());
        self.cents = self.cents.checked_add(cents).ok_or_else(bad)?;
        Ok(self.cents)
    }

    /// Pays a bill, and says so to its order. Both are one commit, which also removes the
    /// message: a bill is paid once, however often it is delivered.
    #[method(private)]
    fn charge(&mut self, ctx: &Context, bill: Bill) -> Result<(), Error> {
        ensure!(
            bill.cents <= self.cents,
            Error::failed_precondition("insufficient_funds", "the balance is too low")
        );
        self.cents -= bill.cents;
        Ref::new("Order", bill.order).message("Paid", &()).send(ctx)
    }

    fn balance(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.cents)
    }
}
