use accounts::{Account, Missing};
use greenroom::testing::Host;

#[test]
fn cash_comes_and_goes() {
    let host = Host::new();
    let ann = host.actor::<Account>("ann");
    assert_eq!(ann.call("Deposit", 500), Ok(500));
    assert_eq!(ann.call("Withdraw", 200), Ok(300));
    let error = ann.call::<i64>("Withdraw", 1000).unwrap_err();
    assert_eq!(error.code(), "insufficient_funds");
    assert_eq!(error.detail(), Ok(Missing { cents: 700 }));
    assert_eq!(ann.query("Balance", ()), Ok(300));
}

#[test]
fn a_closed_account_takes_and_gives_nothing() {
    let host = Host::new();
    let ann = host.actor::<Account>("ann");
    assert_eq!(ann.call("Deposit", 500), Ok(500));
    assert_eq!(ann.call("Close", ()), Ok(500));
    for method in ["Deposit", "Withdraw"] {
        let error = ann.call::<i64>(method, 1).unwrap_err();
        assert_eq!(error.code(), "account_closed");
    }
    assert_eq!(ann.query("Balance", ()), Ok(0));
}

#[test]
fn callers_cannot_move_money() {
    let host = Host::new();
    let ann = host.actor::<Account>("ann");
    for method in ["Debit", "Credit"] {
        let error = ann.call::<i64>(method, 1).unwrap_err();
        assert_eq!(error.code(), "method_private");
    }
}
