//! The stock of one item.

use greenroom::prelude::*;

/// The state of an item, which is its ID.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Stock {
    left: i64,
}

// Placed `any`, as carts and orders are: see orders/main.go.
#[greenroom::actor(placement = any)]
impl Stock {
    /// Adds items. Answers how many are left.
    fn supply(&mut self, _: &Context, count: i64) -> Result<i64, Error> {
        self.add(count)
    }

    /// Takes items for an order, in its transaction.
    #[method(private)]
    fn reserve(&mut self, ctx: &Context, count: i64) -> Result<i64, Error> {
        ensure!(
            count <= self.left,
            Error::failed_precondition(
                "sold_out",
                format!("{} of {} are left", self.left, ctx.id())
            )
        );
        self.left -= count;
        Ok(self.left)
    }

    /// Takes items back of an order that was not paid. Orders send it.
    #[method(private)]
    fn put_back(&mut self, _: &Context, count: i64) -> Result<i64, Error> {
        self.add(count)
    }

    fn left(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.left)
    }
}

impl Stock {
    fn add(&mut self, count: i64) -> Result<i64, Error> {
        let bad = || Error::invalid_argument("bad_count", "give a count above zero");
        ensure!(count > 0, bad());
        self.left = self.left.checked_add(count).ok_or_else(bad)?;
        Ok(self.left)
    }
}
