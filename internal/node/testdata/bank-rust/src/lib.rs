//! A guest whose purses call each other, and accounts in Go.

use greenroom::prelude::*;
use greenroom::Ref;

/// The state.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Purse {
    balance: i64,
}

/// What is moved, and where.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Transfer {
    #[serde(rename = "type")]
    actor_type: String,
    to: String,
    amount: i64,
    /// Another actor to which the amount goes if the first one refuses it.
    retry: String,
}

#[greenroom::actor]
impl Purse {
    /// Adds to the balance. Nobody can deposit 13 at once, which is found out late.
    fn deposit(&mut self, _: &Context, amount: i64) -> Result<i64, Error> {
        self.balance += amount;
        let message = format!("nobody deposits {amount}");
        ensure!(amount != 13, Error::failed_precondition("unlucky", message));
        Ok(self.balance)
    }

    /// Moves an amount to another actor, and answers what is left.
    fn transfer(&mut self, ctx: &Context, t: Transfer) -> Result<i64, Error> {
        self.balance -= t.amount;
        let to = |id| Ref::new(&t.actor_type, id);
        let first: Result<i64, _> = to(&t.to).message("Deposit", &t.amount).call(ctx, self);
        if let Err(e) = first {
            ensure!(!t.retry.is_empty(), e);
            let more = t.amount + 1;
            let _: i64 = to(&t.retry).message("Deposit", &more).call(ctx, self)?;
            self.balance -= 1;
        }
        let missing = format!("{} are missing", -self.balance);
        ensure!(
            self.balance >= 0,
            Error::failed_precondition("insufficient", missing)
        );
        Ok(self.balance)
    }

    /// Has an account, named in `retry`, make a transfer.
    fn order(&mut self, ctx: &Context, mut t: Transfer) -> Result<i64, Error> {
        self.balance += 1;
        let account = Ref::new("Account", std::mem::take(&mut t.retry));
        account.message("Transfer", &t).call(ctx, self)
    }

    /// Calls a method that traps, and answers the code.
    fn call_trap(&mut self, ctx: &Context, id: String) -> Result<String, Error> {
        let trapped: Result<i64, _> = Ref::new("Account", id).message("Trap", &()).call(ctx, self);
        Ok(trapped.map_or_else(|e| e.code().to_string(), |n| n.to_string()))
    }

    fn trap(&mut self, _: &Context) -> Result<(), Error> {
        self.balance = 1 << 30;
        panic!("on purpose")
    }

    /// What this purse and another actor have together.
    fn worth(&self, ctx: &ReadContext, other: Transfer) -> Result<i64, Error> {
        let other = Ref::new(other.actor_type, other.to);
        let theirs: i64 = other.message("Get", &()).query(ctx)?;
        Ok(self.balance + theirs)
    }

    fn get(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.balance)
    }
}

greenroom::module! { Purse }
