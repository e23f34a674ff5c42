//! Bank accounts: money is never made or lost, whatever is refused, repeated or
//! interrupted.
//!
//! A transfer has two legs, one call to each account, under a reference that the
//! caller chooses. Each leg happens once however often it is called, so a caller
//! that lost an answer repeats the call. `TransferBack` returns the money when
//! the receiver refuses it.

use greenroom::prelude::*;

/// Entries that a statement keeps. A reference is recognised as long as its entry
/// is among them.
pub const MAX_ENTRIES: usize = 200;

/// The longest reference, in bytes.
pub const MAX_REFERENCE: usize = 64;

/// The longest actor ID, in bytes: as Greenroom has it.
const MAX_PEER: usize = 512;

/// One account. Amounts are in the currency's smallest unit.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Account {
    balance: i64,
    entries: Vec<Entry>,
}

/// One line of a statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What happened.
    pub kind: Kind,
    /// How much the balance changed, always above zero.
    pub amount: i64,
    /// The balance afterwards.
    pub balance: i64,
    /// When, in milliseconds since 1970 UTC.
    pub at: i64,
    /// The caller's name for a transfer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reference: String,
    /// The other account of a transfer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub peer: String,
}

/// What an entry stands for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Paid in.
    Deposit,
    /// Paid out.
    Withdrawal,
    /// Sent to another account.
    TransferOut,
    /// Received from another account.
    TransferIn,
    /// A `TransferOut` that was returned.
    TransferBack,
}

/// The argument of `Deposit` and `Withdraw`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// Above zero.
    pub amount: i64,
}

/// The argument of `TransferOut` and `TransferIn`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Names the transfer, the same for both legs.
    pub reference: String,
    /// The ID of the other account.
    pub peer: String,
    /// Above zero.
    pub amount: i64,
}

/// The argument of `TransferBack`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// That of the `TransferOut`.
    pub reference: String,
}

/// The argument of `Statement`; none at all asks for everything.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatementRequest {
    /// At most so many entries, the newest.
    #[serde(default)]
    pub limit: Option<usize>,
}

/// The answer of `Statement`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Statement {
    /// The balance now.
    pub balance: i64,
    /// What led to it, the newest first.
    pub entries: Vec<Entry>,
}

/// The detail of `insufficient_funds`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Shortfall {
    /// What there is.
    pub balance: i64,
    /// What was asked for.
    pub requested: i64,
    /// What is missing.
    pub missing: i64,
}

#[greenroom::actor(state_schema = 1, limits(state_bytes = 256 << 10))]
impl Account {
    fn deposit(&mut self, ctx: &Context, request: Amount) -> Result<i64, Error> {
        self.pay_in(ctx, Kind::Deposit, request.amount, None)
    }

    fn withdraw(&mut self, ctx: &Context, request: Amount) -> Result<i64, Error> {
        self.pay_out(ctx, Kind::Withdrawal, request.amount, None)
    }

    #[method(idempotent)]
    fn transfer_out(&mut self, ctx: &Context, request: Transfer) -> Result<i64, Error> {
        if self.is_repeated(ctx, Kind::TransferOut, &request)? {
            if self.entry(Kind::TransferBack, &request.reference).is_some() {
                return Err(Error::failed_precondition(
                    "transfer_returned",
                    "this transfer was returned; send it again under another reference",
                ));
            }
            return Ok(self.balance);
        }
        self.pay_out(ctx, Kind::TransferOut, request.amount, Some(&request))
    }

    #[method(idempotent)]
    fn transfer_in(&mut self, ctx: &Context, request: Transfer) -> Result<i64, Error> {
        if self.is_repeated(ctx, Kind::TransferIn, &request)? {
            return Ok(self.balance);
        }
        self.pay_in(ctx, Kind::TransferIn, request.amount, Some(&request))
    }

    #[method(idempotent)]
    fn transfer_back(&mut self, ctx: &Context, request: Reference) -> Result<i64, Error> {
        if self.entry(Kind::TransferBack, &request.reference).is_some() {
            return Ok(self.balance);
        }
        let sent = self.entry(Kind::TransferOut, &request.reference);
        let sent = sent.ok_or_else(|| {
            Error::not_found(
                "unknown_transfer",
                format!("this account sent nothing under {:?}", request.reference),
            )
        })?;
        let back = Transfer {
            reference: sent.reference.clone(),
            peer: sent.peer.clone(),
            amount: sent.amount,
        };
        self.pay_in(ctx, Kind::TransferBack, back.amount, Some(&back))
    }

    fn balance(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.balance)
    }

    fn statement(
        &self,
        _: &ReadContext,
        request: Option<StatementRequest>,
    ) -> Result<Statement, Error> {
        let limit = request.unwrap_or_default().limit.unwrap_or(MAX_ENTRIES);
        Ok(Statement {
            balance: self.balance,
            entries: self.entries.iter().rev().take(limit).cloned().collect(),
        })
    }
}

impl Account {
    /// Whether this leg of the transfer is done. A reference that stands for
    /// another transfer is an error.
    fn is_repeated(
        &self,
        ctx: &ReadContext,
        kind: Kind,
        transfer: &Transfer,
    ) -> Result<bool, Error> {
        ensure!(
            (1..=MAX_REFERENCE).contains(&transfer.reference.len()),
            Error::invalid_argument(
                "bad_reference",
                format!("a reference has 1 to {MAX_REFERENCE} bytes"),
            )
        );
        ensure!(
            (1..=MAX_PEER).contains(&transfer.peer.len()),
            Error::invalid_argument(
                "bad_peer",
                format!("an account's ID has 1 to {MAX_PEER} bytes"),
            )
        );
        ensure!(
            transfer.peer != ctx.id(),
            Error::invalid_argument(
                "same_account",
                "the two accounts of a transfer are the same",
            )
        );
        let done = match self.entry(kind, &transfer.reference) {
            Some(done) => done,
            None => return Ok(false),
        };
        if done.peer == transfer.peer && done.amount == transfer.amount {
            return Ok(true);
        }
        Err(Error::already_exists(
            "reference_reused",
            format!("{:?} is the reference of another transfer", done.reference),
        )
        .with_detail(done))
    }

    fn entry(&self, kind: Kind, reference: &str) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|e| e.kind == kind && e.reference == reference)
    }

    fn pay_in(
        &mut self,
        ctx: &Context,
        kind: Kind,
        amount: i64,
        transfer: Option<&Transfer>,
    ) -> Result<i64, Error> {
        check(amount)?;
        let balance = self.balance.checked_add(amount).ok_or_else(|| {
            Error::out_of_range("balance_limit", "an account cannot hold that much")
        })?;
        Ok(self.book(ctx, kind, amount, balance, transfer))
    }

    fn pay_out(
        &mut self,
        ctx: &Context,
        kind: Kind,
        amount: i64,
        transfer: Option<&Transfer>,
    ) -> Result<i64, Error> {
        check(amount)?;
        if amount > self.balance {
            let missing = amount - self.balance;
            return Err(Error::failed_precondition(
                "insufficient_funds",
                format!(
                    "the balance is {}, {missing} short of {amount}",
                    self.balance
                ),
            )
            .with_detail(&Shortfall {
                balance: self.balance,
                requested: amount,
                missing,
            }));
        }
        Ok(self.book(ctx, kind, amount, self.balance - amount, transfer))
    }

    fn book(
        &mut self,
        ctx: &Context,
        kind: Kind,
        amount: i64,
        balance: i64,
        transfer: Option<&Transfer>,
    ) -> i64 {
        if self.entries.len() >= MAX_ENTRIES {
            self.entries.drain(..=self.entries.len() - MAX_ENTRIES);
        }
        self.entries.push(Entry {
            kind,
            amount,
            balance,
            at: ctx.now_unix_millis(),
            reference: transfer.map_or_else(String::new, |t| t.reference.clone()),
            peer: transfer.map_or_else(String::new, |t| t.peer.clone()),
        });
        self.balance = balance;
        ctx.debug(format_args!("{kind:?} of {amount}, balance {balance}"));
        balance
    }
}

fn check(amount: i64) -> Result<(), Error> {
    ensure!(
        amount > 0,
        Error::invalid_argument(
            "bad_amount",
            format!("amount is {amount}; give one above zero"),
        )
    );
    Ok(())
}

greenroom::module! { Account }
