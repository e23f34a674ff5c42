use greenroom::testing::Host;
use greenroom::Payload;
use prost::Message;
use wallet::walletv1::{Balance, DepositRequest, GetBalanceRequest, PayRequest, WalletEvent};
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

/// Clients of `Watch` get each change of a balance.
#[test]
fn changes_are_published() {
    let host = Host::of(&GREENROOM_MODULE);
    let ann = host.actor::<Wallet>("ann");
    ann.call::<Balance>("Deposit", deposit(100)).unwrap();
    ann.call::<Balance>("Pay", pay("bob", 30)).unwrap();
    assert!(ann.call::<Balance>("Pay", pay("bob", 71)).is_err());
    for (id, changes) in [
        ("ann", vec![(100, 100), (-30, 70)]),
        ("bob", vec![(30, 30)]),
    ] {
        let events = host.events("Wallet", id);
        assert_eq!(events.len(), changes.len(), "{id}");
        for (event, change) in events.iter().zip(changes) {
            assert_eq!(event.name, "Watch");
            assert_eq!(event.payload.content_type, "application/protobuf");
            let event = WalletEvent::decode(&event.payload.body[..]).unwrap();
            assert_eq!((event.cents, event.balance), change, "{id}");
            assert!(event.at.is_some());
        }
    }
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
