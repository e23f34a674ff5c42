//! A guest with accounts of two types, which keep a ledger of what moved their money: a Purse
//! is at one host with the others of its group, an Account anywhere.

use greenroom::prelude::*;
use greenroom::Ref;

/// A transfer that moved money of an account. It came if cents is above zero.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Entry {
    transfer: String,
    cents: i64,
}

/// The input of Open.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Open {
    cents: i64,
    /// The account takes nothing.
    closed: bool,
}

/// The input of Send.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Send {
    transfer: String,
    to: String,
    cents: i64,
    /// It fails when the other account has the money.
    late: bool,
}

macro_rules! account {
    ($name:ident, $($options:tt)*) => {
        /// The state. A transfer that was applied twice has two entries.
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        pub struct $name {
            balance: i64,
            opened: i64,
            closed: bool,
            entries: Vec<Entry>,
        }

        #[greenroom::actor($($options)*)]
        impl $name {
            fn open(&mut self, _: &Context, input: Open) -> Result<i64, Error> {
                self.opened += input.cents;
                self.balance += input.cents;
                self.closed = input.closed;
                Ok(self.balance)
            }

            /// Takes money from the account. Answers the entry, so that a test recognizes the answer
            /// on a connection.
            fn debit(&mut self, _: &Context, input: Entry) -> Result<Entry, Error> {
                // Checked after the change, so that there is a change to take back.
                self.add(&input, -input.cents);
                ensure!(
                    self.balance >= 0,
                    Error::failed_precondition("insufficient", format!("too little for {}", input.transfer))
                );
                Ok(input)
            }

            /// Gives money to the account. Answers the entry.
            fn credit(&mut self, _: &Context, input: Entry) -> Result<Entry, Error> {
                self.add(&input, input.cents);
                ensure!(
                    !self.closed,
                    Error::failed_precondition("closed", format!("closed to {}", input.transfer))
                );
                Ok(input)
            }

            /// Moves money to another account of this type.
            fn send(&mut self, ctx: &Context, input: Send) -> Result<Entry, Error> {
                let entry = Entry { transfer: input.transfer, cents: input.cents };
                let entry = self.debit(ctx, entry)?;
                let entry: Entry = Ref::of::<$name>(input.to).message("Credit", &entry).atomic().call(ctx, self)?;
                ensure!(!input.late, Error::failed_precondition("late", "too late"));
                Ok(entry)
            }

            fn book(&self, _: &ReadContext) -> Result<$name, Error> {
                Ok(self.clone())
            }
        }

        impl $name {
            fn add(&mut self, entry: &Entry, cents: i64) {
                self.balance += cents;
                let transfer = entry.transfer.clone();
                self.entries.push(Entry { transfer, cents });
            }
        }
    };
}

account!(Purse, co_locate(group = "bank", separator = "/"));
account!(Account, placement = "ring");

greenroom::module! { Purse, Account }
