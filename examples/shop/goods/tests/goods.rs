//! Orders, of the other module, are played by a fake.

use goods::{Bill, Stock, Wallet};
use greenroom::testing::Host;
use greenroom::Error;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

greenroom::record! {
    /// An order that bills a customer.
    #[derive(Default)]
    pub struct Biller { lost: Vec<String> }
}

#[greenroom::actor(name = "Biller")]
impl Biller {
    fn bill(&mut self, ctx: &greenroom::Context, cents: i64) -> Result<(), Error> {
        let order = ctx.id().to_string();
        greenroom::Ref::of::<Wallet>("ann")
            .message("Charge", &Bill { order, cents })
            .on_undelivered("Lost")
            .send(ctx)
    }

    fn lost(&mut self, ctx: &greenroom::Context, bill: Bill) -> Result<(), Error> {
        self.lost
            .push(format!("{}: {}", bill.cents, ctx.cause().failed));
        Ok(())
    }
}

fn host() -> (Host, Rc<RefCell<Vec<String>>>) {
    let host = Host::of(&goods::GREENROOM_MODULE);
    host.add_type::<Biller>();
    let paid = Rc::<RefCell<Vec<String>>>::default();
    let orders = paid.clone();
    host.fake("Order", "Paid", move |id: &str, _: ()| {
        orders.borrow_mut().push(id.to_string());
        Ok(())
    });
    (host, paid)
}

#[test]
fn a_bill_is_paid_once() {
    let (host, paid) = host();
    let wallet = host.actor::<Wallet>("ann");
    wallet.call::<i64>("Deposit", 500).unwrap();
    let biller = host.actor::<Biller>("7");
    biller.call::<()>("Bill", 300).unwrap();
    host.deliver();
    host.advance(Duration::from_secs(60));
    assert_eq!(wallet.query("Balance", ()), Ok(200));
    assert_eq!(*paid.borrow(), ["7"]);
}

#[test]
fn a_bill_that_is_not_paid_comes_back() {
    let (host, paid) = host();
    let biller = host.actor::<Biller>("8");
    biller.call::<()>("Bill", 300).unwrap();
    host.advance(Duration::from_secs(60));
    let lost = vec!["300: insufficient_funds".to_string()];
    assert_eq!(biller.get("lost"), Ok(Some(lost)));
    assert!(paid.borrow().is_empty());
    // Money that comes in time is taken.
    let wallet = host.actor::<Wallet>("ann");
    biller.call::<()>("Bill", 300).unwrap();
    host.deliver();
    wallet.call::<i64>("Deposit", 500).unwrap();
    host.advance(Duration::from_secs(1));
    assert_eq!(*paid.borrow(), ["8"]);
}

#[test]
fn items_are_reserved_while_there_are_some() {
    let (host, _) = host();
    let tea = host.actor::<Stock>("tea");
    assert_eq!(tea.call("Supply", 5), Ok(5));
    let outside = tea.call::<i64>("Reserve", 1).unwrap_err();
    assert_eq!(outside.code(), "method_private");
    assert_eq!(tea.query("Left", ()), Ok(5));
}
