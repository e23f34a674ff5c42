use account::{Account, Amount, Entry, Kind, Reference, Shortfall, Statement, Transfer};
use greenroom::testing::{ActorRef, Host};
use greenroom::{Error, Status};
use std::time::Duration;

fn deposit(to: &ActorRef<Account>, amount: i64) -> Result<i64, Error> {
    to.call("Deposit", Amount { amount })
}

fn withdraw(from: &ActorRef<Account>, amount: i64) -> Result<i64, Error> {
    from.call("Withdraw", Amount { amount })
}

fn balance(of: &ActorRef<Account>) -> i64 {
    of.query("Balance", ()).unwrap()
}

fn transfer(reference: &str, peer: &str, amount: i64) -> Transfer {
    Transfer {
        reference: reference.to_string(),
        peer: peer.to_string(),
        amount,
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().code().to_string()
}

#[test]
fn deposits_and_withdrawals_add_up() {
    let host = Host::new();
    let alice = host.actor::<Account>("alice");
    assert_eq!(balance(&alice), 0);
    assert_eq!(deposit(&alice, 100), Ok(100));
    assert_eq!(withdraw(&alice, 30), Ok(70));
    assert_eq!(balance(&alice), 70);
    assert_eq!(balance(&host.actor("bob")), 0);
}

#[test]
fn an_overdraft_is_refused_with_what_is_missing() {
    let host = Host::new();
    let alice = host.actor::<Account>("alice");
    deposit(&alice, 40).unwrap();
    let before = alice.state_json();

    let error = withdraw(&alice, 100).unwrap_err();
    assert_eq!(error.status(), Status::FailedPrecondition);
    assert_eq!(error.code(), "insufficient_funds");
    assert_eq!(
        error.detail(),
        Ok(Shortfall {
            balance: 40,
            requested: 100,
            missing: 60
        })
    );
    assert_eq!(alice.state_json(), before);
}

#[test]
fn amounts_are_checked() {
    let host = Host::new();
    let alice = host.actor::<Account>("alice");
    for amount in [0, -1, i64::MIN] {
        assert_eq!(code(deposit(&alice, amount)), "bad_amount");
        assert_eq!(code(withdraw(&alice, amount)), "bad_amount");
    }
    assert_eq!(deposit(&alice, i64::MAX), Ok(i64::MAX));
    assert_eq!(code(deposit(&alice, 1)), "balance_limit");
    assert_eq!(balance(&alice), i64::MAX);
}

#[test]
fn what_is_not_the_argument_is_refused() {
    let host = Host::new();
    let alice = host.actor::<Account>("alice");
    for payload in [
        "",
        "5",
        "{}",
        r#"{"amount":"5"}"#,
        r#"{"amount":5,"amuont":6}"#,
    ] {
        let payload = greenroom::Payload::new("application/json", payload);
        let error = alice.call_payload("Deposit", payload).unwrap_err();
        assert_eq!(error.code(), "bad_json");
    }
    assert_eq!(alice.version(), 0);
}

#[test]
fn each_leg_of_a_transfer_happens_once() {
    let host = Host::new();
    let (alice, bob) = (host.actor::<Account>("alice"), host.actor::<Account>("bob"));
    deposit(&alice, 100).unwrap();
    for _ in 0..3 {
        host.drop_memory();
        assert_eq!(alice.call("TransferOut", transfer("t1", "bob", 60)), Ok(40));
    }
    for _ in 0..3 {
        host.drop_memory();
        assert_eq!(bob.call("TransferIn", transfer("t1", "alice", 60)), Ok(60));
    }
    assert_eq!(balance(&alice) + balance(&bob), 100);
}

#[test]
fn a_reference_stands_for_one_transfer() {
    let host = Host::new();
    let alice = host.actor::<Account>("alice");
    deposit(&alice, 100).unwrap();
    alice
        .call::<i64>("TransferOut", transfer("t1", "bob", 60))
        .unwrap();
    for other in [transfer("t1", "bob", 59), transfer("t1", "carol", 60)] {
        let error = alice.call::<i64>("TransferOut", other).unwrap_err();
        assert_eq!(error.code(), "reference_reused");
        assert_eq!(error.detail::<Entry>().unwrap().peer, "bob");
    }
    for bad in [transfer("", "bob", 1), transfer(&"r".repeat(65), "bob", 1)] {
        assert_eq!(code(alice.call::<i64>("TransferOut", bad)), "bad_reference");
    }
    for bad in ["", &"p".repeat(513)] {
        let bad = alice.call::<i64>("TransferOut", transfer("t2", bad, 1));
        assert_eq!(code(bad), "bad_peer");
    }
    let to_itself = alice.call::<i64>("TransferOut", transfer("t2", "alice", 1));
    assert_eq!(code(to_itself), "same_account");
    assert_eq!(balance(&alice), 40);
}

#[test]
fn a_transfer_can_be_returned_once() {
    let host = Host::new();
    let alice = host.actor::<Account>("alice");
    deposit(&alice, 100).unwrap();
    let t1 = || Reference {
        reference: "t1".to_string(),
    };
    assert_eq!(
        code(alice.call::<i64>("TransferBack", t1())),
        "unknown_transfer"
    );
    alice
        .call::<i64>("TransferOut", transfer("t1", "bob", 60))
        .unwrap();
    for _ in 0..2 {
        assert_eq!(alice.call("TransferBack", t1()), Ok(100));
    }
    let again = alice.call::<i64>("TransferOut", transfer("t1", "bob", 60));
    assert_eq!(code(again), "transfer_returned");
    assert_eq!(balance(&alice), 100);
}

#[test]
fn a_statement_lists_the_newest_first() {
    let host = Host::new();
    let alice = host.actor::<Account>("alice");
    assert_eq!(
        alice.query("Statement", ()),
        Ok(Statement {
            balance: 0,
            entries: vec![]
        })
    );
    deposit(&alice, 100).unwrap();
    host.advance(Duration::from_secs(60));
    alice
        .call::<i64>("TransferOut", transfer("rent", "bob", 60))
        .unwrap();

    let statement: Statement = alice.query("Statement", ()).unwrap();
    assert_eq!(statement.balance, 40);
    let kinds: Vec<Kind> = statement.entries.iter().map(|e| e.kind).collect();
    assert_eq!(kinds, [Kind::TransferOut, Kind::Deposit]);
    assert_eq!(statement.entries[0].at - statement.entries[1].at, 60_000);
    assert_eq!(statement.entries[0].reference, "rent");

    let newest = greenroom::Payload::new("application/json", r#"{"limit":1}"#);
    let newest: Statement = alice.query("Statement", newest).unwrap();
    assert_eq!(newest.entries, statement.entries[..1]);
}

#[test]
fn a_statement_is_bounded() {
    let host = Host::new();
    let alice = host.actor::<Account>("alice");
    let peer = "p".repeat(64);
    for i in 1..=account::MAX_ENTRIES as i64 + 50 {
        let reference = format!("{i:0>64}");
        assert_eq!(
            alice.call("TransferIn", transfer(&reference, &peer, 1)),
            Ok(i)
        );
    }
    let statement: Statement = alice.query("Statement", ()).unwrap();
    assert_eq!(statement.entries.len(), account::MAX_ENTRIES);
    assert_eq!(statement.entries[0].balance, statement.balance);
}

#[test]
fn reading_stores_nothing() {
    let host = Host::new();
    let alice = host.actor::<Account>("alice");
    balance(&alice);
    alice.query::<Statement>("Statement", ()).unwrap();
    assert_eq!(alice.version(), 0);
    let refused = alice.query::<i64>("Deposit", Amount { amount: 1 });
    assert_eq!(code(refused), "not_read_only");
}
