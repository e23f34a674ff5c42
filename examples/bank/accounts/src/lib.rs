//! Accounts. Cash comes and goes by `Deposit` and `Withdraw`; between accounts only
//! transfers move money, which are actors of another module, in Go.

use greenroom::prelude::*;

/// The state of an account. Amounts are in cents.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Account {
    cents: i64,
    closed: bool,
}

/// What an account lacks, the detail of `insufficient_funds`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// In cents.
    pub cents: i64,
}

#[greenroom::actor]
impl Account {
    /// Takes cash. Answers the balance.
    fn deposit(&mut self, _: &Context, cents: i64) -> Result<i64, Error> {
        self.add(cents)
    }

    /// Gives cash. Answers the balance.
    fn withdraw(&mut self, _: &Context, cents: i64) -> Result<i64, Error> {
        self.take(cents)
    }

    /// The half of a transfer that gives. No caller from outside gets here.
    #[method(private)]
    fn debit(&mut self, ctx: &Context, cents: i64) -> Result<i64, Error> {
        self.log(ctx, -cents);
        self.take(cents)
    }

    /// The half of a transfer that takes.
    #[method(private)]
    fn credit(&mut self, ctx: &Context, cents: i64) -> Result<i64, Error> {
        self.log(ctx, cents);
        self.add(cents)
    }

    /// Pays out what is left, and closes the account: from then on it takes and gives nothing.
    /// Answers the amount.
    fn close(&mut self, _: &Context) -> Result<i64, Error> {
        self.closed = true;
        Ok(std::mem::take(&mut self.cents))
    }

    fn balance(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.cents)
    }
}

impl Account {
    fn check(&self, cents: i64) -> Result<(), Error> {
        ensure!(
            !self.closed,
            Error::failed_precondition("account_closed", "the account is closed")
        );
        ensure!(cents > 0, bad_amount());
        Ok(())
    }

    fn add(&mut self, cents: i64) -> Result<i64, Error> {
        self.check(cents)?;
        self.cents = self.cents.checked_add(cents).ok_or_else(bad_amount)?;
        Ok(self.cents)
    }

    fn take(&mut self, cents: i64) -> Result<i64, Error> {
        self.check(cents)?;
        let missing = Missing {
            cents: cents - self.cents,
        };
        ensure!(
            missing.cents <= 0,
            Error::failed_precondition("insufficient_funds", "the balance is too low")
                .with_detail(&missing)
        );
        self.cents -= cents;
        Ok(self.cents)
    }

    fn log(&self, ctx: &Context, cents: i64) {
        if let Some(transfer) = ctx.cause().from {
            ctx.info(format_args!("{cents} by transfer {}", transfer.id));
        }
    }
}

fn bad_amount() -> Error {
    Error::invalid_argument("bad_amount", "give an amount above zero")
}

greenroom::module! { Account }
