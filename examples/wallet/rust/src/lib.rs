//! A guest whose clients are generated: its actors serve the Protobuf service
//! wallet.v1.WalletService.

pub mod walletv1;

use greenroom::prelude::*;
use greenroom::Ref;
use std::time::UNIX_EPOCH;
use walletv1::google::protobuf::Timestamp;
use walletv1::{Balance, DepositRequest, GetBalanceRequest, PayRequest, WalletEvent};
use walletv1::{WalletServiceActor, WalletServiceRef};

/// The state of an actor.
#[derive(Default, Serialize, Deserialize)]
pub struct Wallet {
    cents: i64,
    /// When something was last put in or paid: seconds since 1970, and nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<(i64, i32)>,
}

#[greenroom::actor(service = walletv1::WalletService)]
impl WalletServiceActor for Wallet {
    fn deposit(&mut self, ctx: &Context, request: DepositRequest) -> Result<Balance, Error> {
        self.check(request.cents)?;
        self.change(ctx, request.cents)?;
        Ok(self.balance())
    }

    fn pay(&mut self, ctx: &Context, request: PayRequest) -> Result<Balance, Error> {
        self.check(request.cents)?;
        ensure!(
            request.cents <= self.cents,
            Error::failed_precondition(
                "insufficient",
                format!(
                    "the wallet has {} cents, and {} were to be paid",
                    self.cents, request.cents
                )
            )
        );
        let deposit = DepositRequest {
            wallet_id: request.to.clone(),
            cents: request.cents,
        };
        let to = WalletServiceRef(Ref::of::<Wallet>(request.to));
        to.deposit(deposit).atomic().call(ctx, self)?;
        self.change(ctx, -request.cents)?;
        Ok(self.balance())
    }

    fn get_balance(&self, _: &ReadContext, _: GetBalanceRequest) -> Result<Balance, Error> {
        Ok(self.balance())
    }
}

impl Wallet {
    fn check(&self, cents: i64) -> Result<(), Error> {
        ensure!(
            cents > 0,
            Error::invalid_argument(
                "bad_amount",
                format!("cents is {cents}; give a positive number")
            )
        );
        Ok(())
    }

    /// Puts money in or takes it out, and publishes that to the clients of `Watch`.
    fn change(&mut self, ctx: &Context, cents: i64) -> Result<(), Error> {
        self.cents += cents;
        let now = ctx.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.changed = Some((now.as_secs() as i64, now.subsec_nanos() as i32));
        let event = WalletEvent {
            cents,
            balance: self.cents,
            at: self.changed_at(),
            ..Default::default()
        };
        walletv1::publish_watch(ctx, event)
    }

    fn changed_at(&self) -> Option<Timestamp> {
        self.changed
            .map(|(seconds, nanos)| Timestamp { seconds, nanos })
    }

    fn balance(&self) -> Balance {
        Balance {
            cents: self.cents,
            changed_at: self.changed_at(),
        }
    }
}

greenroom::module! { Wallet }
