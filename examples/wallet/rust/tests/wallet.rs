use greenroom::testing::Host;
use greenroom::Payload;
use wallet::walletv1::{Balance, DepositRequest, GetBalanceRequest, PayRequest};
use wallet::{Wallet, GREENROOM_MODULE};

fn deposit(cents: i64) -> DepositRequest {
    DepositRequest {
        cents,
        ..DepositRequest::default()
    }
}

fn pay(to: &str, cents: i64) -> PayRequest {
    PayRequest {
        to: to.to_string(),
        cents,
        ..PayRequest::default()
    }
}

#[test]
fn wallets_pay_each_other() {
    let host = Host::of(&GREENROOM_MODULE);
    let ann = host.actor::<Wallet>("ann");
    let balance: Balance = ann.call("Deposit", deposit(100)).unwrap();
    assert_eq!(balance.cents, 100);
    assert!(balance.changed_at.is_some());
    let balance: Balance = ann.call("Pay", pay("bob", 30)).unwrap();
    assert_eq!(balance.cents, 70);
    for (id, cents) in [("ann", 70), ("bob", 30), ("carl", 0)] {
        let wallet = host.actor::<Wallet>(id);
        wallet.deactivate(); // what counts is what was stored
        let balance: Balance = wallet
            .query("GetBalance", GetBalanceRequest::default())
            .unwrap();
        assert_eq!(balance.cents, cents, "{id}");
    }
    let e = ann.call::<Balance>("Pay", pay("bob", 71)).unwrap_err();
    assert_eq!(e.code(), "insufficient");
    let e = ann.call::<Balance>("Deposit", deposit(0)).unwrap_err();
    assert_eq!(e.code(), "bad_amount");
}

/// The methods take Protobuf's binary form alone; the server makes it of JSON.
#[test]
fn other_payloads_are_refused() {
    let host = Host::of(&GREENROOM_MODULE);
    let ann = host.actor::<Wallet>("ann");
    for payload in [
        Payload::new("application/json", r#"{"cents": 1}"#),
        Payload::new("", r#"{"cents": 1}"#),
        Payload::new("application/protobuf", [0xff]),
    ] {
        let e = ann.call_payload("Deposit", payload).unwrap_err();
        assert_eq!(e.code(), "bad_protobuf");
    }
}
