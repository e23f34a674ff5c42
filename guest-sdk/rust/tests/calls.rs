//! Actors that call each other, as the test kit runs them.

use greenroom::testing::Host;
use greenroom::{call, life, CauseKind, Context, Error, Payload, ReadContext, Ref, Reminder};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

greenroom::record! {
    #[derive(Debug, Default)]
    pub struct Account {
        balance: i64,
        note: String,
    }

    #[derive(Debug, Default)]
    pub struct Transfer {
        to: String,
        amount: i64,
        retry: String,
    }

    #[derive(Debug, Default)]
    pub struct Teller {
        asked: i64,
    }
}

impl Account {
    fn deposit(&mut self, ctx: &Context, amount: i64) -> Result<i64, Error> {
        self.balance += amount;
        ctx.state().set("seen", &amount)?;
        ctx.reminders()
            .set(Reminder::once("audit", "Audit", Duration::from_secs(60)))?;
        if amount == 13 {
            return Err(Error::failed_precondition("unlucky", "nobody deposits 13").with_detail(&7));
        }
        Ok(self.balance)
    }

    fn crash(&mut self, _: &Context) -> Result<(), Error> {
        self.balance = 1000;
        panic!("the balance is {}", self.balance)
    }

    fn audit(&mut self, _: &Context) -> Result<(), Error> {
        self.note.push('a');
        Ok(())
    }

    fn transfer(&mut self, ctx: &Context, t: Transfer) -> Result<i64, Error> {
        self.balance -= t.amount;
        let to = Ref::of::<Account>(t.to);
        match to.message("Deposit", &t.amount).call::<i64>(ctx, self) {
            Err(e) if !t.retry.is_empty() => {
                assert_eq!(e.detail(), Ok(7));
                let retry = Ref::of::<Account>(t.retry);
                retry
                    .message("Deposit", &(t.amount + 1))
                    .call::<i64>(ctx, self)?;
                self.balance -= 1;
            }
            result => drop(result?),
        }
        if self.balance < 0 {
            return Err(Error::failed_precondition("insufficient", "too little"));
        }
        Ok(self.balance)
    }

    fn balance(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.balance)
    }

    fn who(&mut self, ctx: &Context) -> Result<String, Error> {
        let cause = ctx.cause();
        assert_eq!(cause.kind == CauseKind::Actor, cause.from.is_some());
        Ok(cause.from.map_or("outside".to_string(), |f| f.to_string()))
    }
}

impl Teller {
    fn ask(&mut self, ctx: &Context, to: Vec<String>) -> Result<Payload, Error> {
        self.asked += 1;
        Ref::new(&to[0], &to[1])
            .message(&to[2], &())
            .timeout(Duration::from_micros(1500))
            .atomic()
            .call(ctx, self)
    }

    /// Whether a call was committed on its own, and what a call in one transaction got.
    fn own(&mut self, ctx: &Context) -> Result<String, Error> {
        let message = Ref::of::<Account>("x").message("Who", &());
        let (reply, own) = message.clone().call_committed::<i64>(ctx, self);
        let (atomic, never) = message.atomic().call_committed::<i64>(ctx, self);
        assert!(!never);
        let code =
            |r: Result<i64, Error>| r.map_or_else(|e| e.code().to_string(), |n| n.to_string());
        Ok(format!("{} {own} {}", code(reply), code(atomic)))
    }

    fn number(&mut self, ctx: &Context, id: String) -> Result<i64, Error> {
        Ref::of::<Account>(id).message("Who", &()).call(ctx, self)
    }

    fn look(&self, ctx: &ReadContext, to: Vec<String>) -> Result<i64, Error> {
        Ref::of::<Account>(&to[0]).message(&to[1], &()).query(ctx)
    }

    fn look_and_write(&mut self, ctx: &Context) -> Result<i64, Error> {
        Ref::of::<Account>("a").message("Balance", &()).query(ctx)
    }

    fn sink(&mut self, ctx: &Context, n: u32) -> Result<u32, Error> {
        Ref::of::<Teller>(format!("t{n}"))
            .message("Sink", &(n + 1))
            .call(ctx, self)
    }

    fn spread(&mut self, ctx: &Context, n: u32) -> Result<(), Error> {
        for i in 0..n {
            Ref::of::<Account>(i.to_string())
                .message("Audit", &())
                .call::<()>(ctx, self)?;
        }
        Ok(())
    }
}

/// May be entered again while it calls.
mod again {
    use greenroom::{Context, Error, ReadContext, Ref};

    greenroom::record! {
        #[derive(Debug, Default)]
        pub struct Loop {
            pub trace: String,
            pub count: u32,
        }
    }

    impl Loop {
        fn start(&mut self, ctx: &Context, fail: bool) -> Result<String, Error> {
            self.trace.push('(');
            let me = Ref::of::<Loop>(ctx.id());
            let seen: Result<u32, Error> = me.message("Inner", &fail).call(ctx, self);
            self.trace += &match seen {
                Ok(n) => format!("){n}"),
                Err(e) => format!("!{}", e.code()),
            };
            self.count += 1;
            Ok(self.trace.clone())
        }

        fn wipe(&mut self, ctx: &Context) -> Result<String, Error> {
            ctx.state().delete_all(self)?;
            self.start(ctx, false)
        }

        fn inner(&mut self, _: &Context, fail: bool) -> Result<u32, Error> {
            self.trace.push('.');
            self.count += 10;
            if fail {
                return Err(Error::aborted("no", "no"));
            }
            Ok(self.count)
        }

        fn view(&self, _: &ReadContext) -> Result<(), Error> {
            Ok(())
        }
    }

    greenroom::record! {
        #[derive(Debug, Default)]
        pub struct Spiral {
            pub turns: u32,
        }
    }

    impl Spiral {
        fn down(&mut self, ctx: &Context, depth: u32) -> Result<u32, Error> {
            self.turns += 1;
            if depth > 0 {
                let me = Ref::of::<Spiral>(ctx.id());
                me.message("Down", &(depth - 1)).call::<u32>(ctx, self)?;
            }
            Ok(self.turns)
        }
    }

    greenroom::actors! {
        Spiral {
            methods: { "Down" => down },
            reentrant: true,
        }
        Loop {
            methods: {
                "Start" => start,
                "Wipe" => wipe,
                "Inner" => reentrant inner,
                "View" => read_only view,
            }
        }
    }
}

greenroom::actors! {
    Account {
        methods: {
            "Deposit" => deposit,
            "Transfer" => transfer,
            "Audit" => private atomic audit,
            "Crash" => crash,
            "Balance" => read_only balance,
            "Who" => who,
        }
    }
    Teller {
        methods: {
            "Ask" => ask,
            "Number" => number,
            "Own" => own,
            "Look" => read_only look,
            "LookAndWrite" => look_and_write,
            "Sink" => sink,
            "Spread" => spread,
        }
    }
}

fn transfer(to: &str, amount: i64, retry: &str) -> Transfer {
    Transfer {
        to: to.to_string(),
        amount,
        retry: retry.to_string(),
    }
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| s.to_string()).collect()
}

#[test]
fn all_of_a_transfer_happens_or_nothing() {
    let host = Host::of(&GREENROOM_MODULE);
    let (ann, bob) = (host.actor::<Account>("ann"), host.actor::<Account>("bob"));
    assert_eq!(ann.call("Deposit", 100), Ok(100));
    assert_eq!(ann.call("Transfer", transfer("bob", 30, "")), Ok(70));
    assert_eq!(bob.call("Transfer", transfer("ann", 10, "")), Ok(20));
    let error =
        |of: &greenroom::testing::ActorRef<Account>, t| of.call::<i64>("Transfer", t).unwrap_err();
    assert_eq!(error(&bob, transfer("ann", 21, "")).code(), "insufficient");
    assert_eq!(error(&bob, transfer("ann", 13, "")).code(), "unlucky");
    assert_eq!(
        error(&ann, transfer("ann", 1, "")).code(),
        call::NOT_REENTRANT
    );
    assert_eq!(ann.call("Transfer", transfer("bob", 13, "bob")), Ok(66));
    for (account, want) in [(&ann, 66), (&bob, 34)] {
        assert_eq!(account.query("Balance", ()), Ok(want));
        host.drop_memory();
        assert_eq!(account.query("Balance", ()), Ok(want));
    }
    assert_eq!(bob.get("seen"), Ok(Some(14))); // and not the 13 that was taken back
}

#[test]
fn reminders_of_a_callee_are_part_of_the_chain() {
    let host = Host::of(&GREENROOM_MODULE);
    let ann = host.actor::<Account>("ann");
    assert!(ann
        .call::<i64>("Transfer", transfer("bob", 13, ""))
        .is_err());
    assert!(ann.call::<i64>("Transfer", transfer("bob", 5, "")).is_err());
    assert_eq!(host.reminders(), []);
    ann.set_state(0, r#"{"balance":50}"#);
    assert_eq!(ann.call("Transfer", transfer("bob", 13, "cid")), Ok(36));
    let owners: Vec<String> = host
        .reminders()
        .iter()
        .map(|r| r.actor.id.clone())
        .collect();
    assert_eq!(owners, ["cid"]);
    host.advance(Duration::from_secs(60));
    assert_eq!(
        host.actor::<Account>("cid").get("note"),
        Ok(Some("a".to_string()))
    );
}

#[test]
fn a_private_method_takes_no_call_from_outside() {
    let host = Host::of(&GREENROOM_MODULE);
    let error = host.actor::<Account>("a").call::<()>("Audit", ());
    assert_eq!(error.unwrap_err().code(), "method_private");
    let teller = host.actor::<Teller>("t");
    assert_eq!(teller.call("Spread", 1), Ok(()));
}

#[test]
fn a_callee_knows_who_calls() {
    let host = Host::of(&GREENROOM_MODULE);
    let teller = host.actor::<Teller>("t");
    let who = teller.call::<String>("Ask", texts(&["Account", "a", "Who"]));
    assert_eq!(who, Ok("Teller||t".to_string()));
    let who = host.actor::<Account>("a").call::<String>("Who", ());
    assert_eq!(who, Ok("outside".to_string()));
}

#[test]
fn refused_calls_have_the_codes_of_a_server() {
    let host = Host::of(&GREENROOM_MODULE);
    let teller = host.actor::<Teller>("t");
    for (to, want) in [
        (["Nothing", "a", "M"], call::TYPE_NOT_FOUND),
        (["Account", "a", "M"], call::METHOD_NOT_FOUND),
        (["Account", "", "Who"], call::INVALID_CALL),
        (["", "a", "Who"], life::SERVICE_NOT_FOUND),
        (["", "", "Who"], call::INVALID_CALL),
        (["Account", "a", ""], call::INVALID_CALL),
        (["Teller", "t", "Sink"], call::NOT_REENTRANT),
    ] {
        let error = teller
            .call_payload("Ask", Payload::new("", format!("{to:?}")))
            .unwrap_err();
        assert_eq!(error.code(), want, "{to:?}");
    }
    assert_eq!(teller.get::<i64>("asked"), Ok(None));
    let sunk = teller.call::<u32>("Sink", 0).unwrap_err();
    assert_eq!(sunk.code(), call::TOO_DEEP);
    assert_eq!(teller.call("Spread", 63), Ok(()));
    let spread = teller.call::<()>("Spread", 64).unwrap_err();
    assert_eq!(spread.code(), call::TOO_MANY);
    let number = teller.call::<i64>("Number", "a".to_string()).unwrap_err();
    assert_eq!(number.code(), "bad_reply");
    assert!(
        number
            .message()
            .starts_with("the reply of Account.Who, 11 bytes: "),
        "{number}"
    );
}

#[test]
fn read_only_methods_call_read_only_ones() {
    let host = Host::of(&GREENROOM_MODULE);
    let teller = host.actor::<Teller>("t");
    host.actor::<Account>("a")
        .call::<i64>("Deposit", 4)
        .unwrap();
    assert_eq!(teller.query("Look", texts(&["a", "Balance"])), Ok(4));
    let error = teller
        .query::<i64>("Look", texts(&["a", "Audit"]))
        .unwrap_err();
    assert_eq!(error.code(), "read_only");
    let error = teller.call::<i64>("LookAndWrite", ()).unwrap_err();
    assert_eq!(error.code(), call::INVALID_CALL);
}

#[test]
fn a_method_that_is_called_back_finds_the_struct_and_leaves_it() {
    let host = Host::of(&again::GREENROOM_MODULE);
    let actor = host.actor::<again::Loop>("l");
    let call = |method, fail: bool| actor.call::<String>(method, fail).unwrap();
    assert_eq!(call("Start", false), "(.)10");
    assert_eq!(call("Start", true), "(.)10(!no");
    assert_eq!(actor.state_json(), r#"{"count":12,"trace":"(.)10(!no"}"#);
    host.drop_memory();
    assert_eq!(call("Wipe", false), "(.)10");
    assert_eq!(actor.state_json(), r#"{"count":11,"trace":"(.)10"}"#);
    assert_eq!(
        host.actor::<again::Spiral>("s").call("Down", 3u32),
        Ok(4u32)
    );
}

#[test]
fn a_call_of_another_server_commits_on_its_own() {
    let host = Host::new();
    let teller = host.actor::<Teller>("t");
    let own = || teller.call::<String>("Own", ()).unwrap();
    let number = host.fake("Account", "Who", |_: &str, (): ()| Ok(1i64));
    assert_eq!(own(), "1 false 1");
    number.elsewhere();
    assert_eq!(own(), "1 true not_atomic");
    host.fake("Account", "Who", |_: &str, (): ()| Ok("no number"))
        .elsewhere();
    assert_eq!(own(), "bad_reply true not_atomic");
}

#[test]
fn a_callee_that_panics_traps() {
    let host = Host::of(&GREENROOM_MODULE);
    let teller = host.actor::<Teller>("t");
    let ask = |method| teller.call::<String>("Ask", texts(&["Account", "a", method]));
    let error = ask("Crash").unwrap_err();
    assert_eq!(error.code(), call::TRAP);
    assert_eq!(
        error.message(),
        "Account.Crash trapped: the balance is 1000"
    );
    let balance = host.actor::<Account>("a").query("Balance", ());
    assert_eq!(balance, Ok(0));
}

#[test]
#[should_panic(expected = "of the test")]
fn a_fake_that_panics_ends_the_test() {
    let host = Host::of(&GREENROOM_MODULE);
    host.fake("Account", "Who", |_: &str, (): ()| -> Result<(), Error> {
        panic!("of the test")
    });
    let teller = host.actor::<Teller>("t");
    let _ = teller.call::<String>("Ask", texts(&["Teller", "u", "Own"]));
}

#[test]
fn a_read_only_method_calls_fakes_of_read_only_ones() {
    let host = Host::new();
    let teller = host.actor::<Teller>("t");
    let look = || teller.query::<i64>("Look", texts(&["a", "Sum"]));
    let fake = host.fake("Account", "Sum", |_: &str, (): ()| Ok(5i64));
    assert_eq!(look().unwrap_err().code(), "read_only");
    fake.read_only();
    assert_eq!(look(), Ok(5));
}

#[test]
fn a_fake_stands_for_a_type() {
    let host = Host::new();
    let teller = host.actor::<Teller>("t");
    let asked = Rc::new(RefCell::new(Vec::new()));
    let seen = asked.clone();
    host.fake("Account", "Who", move |id: &str, (): ()| {
        seen.borrow_mut().push(id.to_string());
        match id {
            "x" => Err(Error::unavailable("away", "later").retry_after(Duration::from_secs(2))),
            "y" => Err(Error::unavailable(call::UNAVAILABLE, "lost")),
            _ => Ok(id.to_string()),
        }
    });
    let ask = |id| teller.call::<String>("Ask", texts(&["Account", id, "Who"]));
    assert_eq!(ask("a"), Ok("a".to_string()));
    let error = ask("x").unwrap_err();
    assert_eq!(
        (error.code(), error.retry_delay()),
        ("away", Some(Duration::from_secs(2)))
    );
    assert!(!error.perhaps_ran());
    assert!(ask("y").unwrap_err().perhaps_ran());
    assert_eq!(*asked.borrow(), ["a", "x", "y"]);
    let other = teller.call::<String>("Ask", texts(&["Account", "a", "Other"]));
    assert_eq!(other.unwrap_err().code(), call::METHOD_NOT_FOUND);
}

#[test]
fn what_a_fake_calls_is_part_of_the_transaction() {
    let host = Host::of(&GREENROOM_MODULE);
    let of = host.clone();
    host.fake("Bank", "Move", move |_: &str, (): ()| {
        let moved: i64 = of.actor::<Account>("bob").call("Deposit", 5)?;
        let back = of
            .actor::<Teller>("t")
            .call::<i64>("Number", "b".to_string());
        assert_eq!(back.unwrap_err().code(), call::NOT_REENTRANT);
        if moved > 5 {
            return Err(Error::aborted("enough", "enough"));
        }
        of.actor::<Account>("bob").call::<String>("Who", ())
    });
    let teller = host.actor::<Teller>("t");
    let ask = || teller.call::<String>("Ask", texts(&["Bank", "b", "Move"]));
    assert_eq!(ask(), Ok("Teller||t".to_string()));
    assert_eq!(ask().unwrap_err().code(), "enough");
    assert_eq!(host.actor::<Account>("bob").query("Balance", ()), Ok(5));
}
