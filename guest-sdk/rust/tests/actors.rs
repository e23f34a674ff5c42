//! Actors in the test kit: what the SDK and a host promise together.

#![cfg(feature = "serde")]

use greenroom::prelude::*;
use greenroom::spec::{Instance, Placement, Pool};
use greenroom::testing::{ActorRef, Host};
use greenroom::{Actor, Level};
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::{Duration, UNIX_EPOCH};

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Cart {
    owner: String,
    lines: BTreeMap<String, u32>,
    total: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    item: String,
    count: u32,
}

impl Cart {
    fn add(&mut self, ctx: &Context, line: Line) -> Result<u32, Error> {
        let count = self.lines.entry(line.item).or_default();
        *count += line.count;
        let count = *count;
        self.total += i64::from(line.count);
        ctx.info(format_args!("{} lines", self.lines.len()));
        Ok(count)
    }

    /// Changes the struct and a key, then fails.
    fn fail(&mut self, ctx: &Context) -> Result<(), Error> {
        self.total = -1;
        ctx.state().set("note", "left behind")?;
        let detail = BTreeMap::from([("left", 3)]);
        Err(
            Error::new(Status::ResourceExhausted, "out_of_stock", "only 3 left")
                .with_detail(&detail)
                .retryable(),
        )
    }

    fn panic(&mut self, _: &Context) -> Result<(), Error> {
        self.total = -1;
        panic!("the shelf fell down");
    }

    fn touch(&mut self, _: &Context) -> Result<(), Error> {
        self.owner = self.owner.clone();
        Ok(())
    }

    fn clear(&mut self, ctx: &Context) -> Result<u32, Error> {
        ctx.state().delete_all(self)
    }

    /// Deletes all and comes to be what it was.
    fn rebuild(&mut self, ctx: &Context) -> Result<(), Error> {
        let (lines, total) = (self.lines.clone(), self.total);
        ctx.state().delete_all(self)?;
        assert_eq!(*self, Cart::default());
        self.lines = lines;
        self.total = total;
        Ok(())
    }

    /// The keys alone.
    fn clear_keys(&self, ctx: &Context) -> Result<u32, Error> {
        ctx.state().clear()
    }

    fn restart(&mut self, ctx: &Context, owner: String) -> Result<(), Error> {
        ctx.state().delete_all(self)?;
        self.owner = owner;
        Ok(())
    }

    fn note(&mut self, ctx: &Context, text: Option<String>) -> Result<bool, Error> {
        match text {
            Some(text) => ctx.state().set("note", &text).map(|()| true),
            None => ctx.state().delete("note"),
        }
    }

    /// Sets a field's key behind the struct's back.
    fn set_total(&self, ctx: &Context, total: i64) -> Result<(), Error> {
        ctx.state().set("total", &total)
    }

    fn parse(&mut self, _: &Context, text: String) -> Result<Line, Error> {
        Ok(serde_json::from_str(&text)?)
    }

    fn total(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.total)
    }

    fn keys(&self, ctx: &ReadContext, prefix: String) -> Result<Vec<String>, Error> {
        ctx.state().keys(&prefix)
    }

    fn grow(&mut self, ctx: &Context, bytes: usize) -> Result<(), Error> {
        ctx.state().set_bytes("blob", &vec![7; bytes])
    }

    fn long(&mut self, _: &Context, bytes: usize) -> Result<Payload, Error> {
        self.total = 99;
        Ok(Payload::new("text/plain", vec![b'x'; bytes]))
    }

    fn bad_key(&mut self, ctx: &Context, length: usize) -> Result<(), Error> {
        ctx.state().set(&"k".repeat(length), &1)
    }

    fn turn(&self, ctx: &ReadContext) -> Result<(String, String, i64, u64, u64), Error> {
        Ok((
            ctx.key().to_string(),
            ctx.method().to_string(),
            ctx.now_unix_millis(),
            ctx.random_u64(),
            ctx.state().version(),
        ))
    }

    fn echo(&mut self, _: &Context, payload: Payload) -> Result<Payload, Error> {
        Ok(payload)
    }

    fn migrate(ctx: &Context, from: u32) -> Result<(), Error> {
        #[derive(Default, Serialize, Deserialize)]
        struct V1 {
            user: String,
        }
        if from < 2 {
            let old: V1 = ctx.state().load()?;
            if old.user == "nobody" {
                return Err(Error::new(Status::Internal, "no_user", "nobody's cart"));
            }
            ctx.state().set("owner", &old.user)?;
            ctx.state().delete("user")?;
        }
        Ok(())
    }
}

/// Its own error type, and a stateless type.
#[derive(Default, Serialize, Deserialize)]
struct Adder;

struct Overflow;

impl From<Overflow> for Error {
    fn from(_: Overflow) -> Error {
        Error::new(Status::OutOfRange, "overflow", "too much")
    }
}

impl Adder {
    fn sum(&self, _: &ReadContext, numbers: Vec<i64>) -> Result<i64, Overflow> {
        let mut numbers = numbers.into_iter();
        numbers
            .try_fold(0i64, |sum, n| sum.checked_add(n))
            .ok_or(Overflow)
    }

    fn remember(&mut self, ctx: &Context) -> Result<(), Error> {
        ctx.state().set("a", &1)
    }
}

greenroom::actors! {
    Cart as "shop.Cart" {
        methods: {
            "Add" => add,
            "Fail" => fail,
            "Panic" => panic,
            "Touch" => idempotent touch,
            "Clear" => idempotent reentrant clear,
            "Restart" => restart,
            "Rebuild" => rebuild,
            "ClearKeys" => clear_keys,
            "Note" => note,
            "SetTotal" => set_total,
            "Parse" => parse,
            "Total" => read_only total,
            "Keys" => read_only idempotent keys,
            "Grow" => grow,
            "Long" => long,
            "BadKey" => bad_key,
            "Turn" => read_only turn,
            "Echo" => echo,
        },
        placement: sticky,
        instance: shared,
        pool: batch,
        state_schema: 2,
        migrate: migrate,
        limits: { state_bytes: 2 << 10, payload_bytes: 1000, turn_ms: 50 },
    }
    Adder {
        placement: stateless,
        methods: { "Sum" => read_only sum, "Remember" => remember },
    }
}

fn cart() -> (Host, ActorRef<Cart>) {
    let host = Host::new();
    let cart = host.actor("💚/1||x");
    (host, cart)
}

fn line(item: &str, count: u32) -> Line {
    Line {
        item: item.to_string(),
        count,
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().code().to_string()
}

#[test]
fn the_macro_says_what_it_was_told() {
    let spec = Cart::SPEC;
    assert_eq!(spec.name, "shop.Cart");
    assert_eq!(spec.placement, Placement::Sticky);
    assert_eq!(spec.instance, Some(Instance::Shared));
    assert_eq!(spec.pool, Pool::Batch);
    assert_eq!((spec.state_schema, spec.migrate), (2, true));
    assert_eq!(spec.limits.state_bytes, 2048);
    assert_eq!(spec.limits.memory_bytes, 0);
    let flags = |name: &str| {
        let m = spec.method(name).unwrap();
        (m.read_only, m.idempotent, m.reentrant)
    };
    assert_eq!(flags("Add"), (false, false, false));
    assert_eq!(flags("Clear"), (false, true, true));
    assert_eq!(flags("Keys"), (true, true, false));
    let manifest = GREENROOM_MODULE.manifest();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["types"][1]["name"], "Adder");
}

#[test]
fn fields_are_keys() {
    let (host, cart) = cart();
    assert_eq!(cart.call("Add", line("tea", 2)), Ok(2));
    assert_eq!(cart.call("Add", line("tea", 1)), Ok(3));
    // The owner is as in a new cart, so it is not stored.
    assert_eq!(cart.state_json(), r#"{"lines":{"tea":3},"total":3}"#);
    assert_eq!(cart.version(), 2);
    host.drop_memory();
    assert_eq!(cart.query("Total", ()), Ok(3));
    assert_eq!(host.actor::<Cart>("other").query("Total", ()), Ok(0));
    assert_eq!(host.logs().len(), 2);
    assert!(host.logs()[0].is(Level::Info));
    assert_eq!(host.logs()[0].text, "1 lines");
}

#[test]
fn a_turn_that_changes_nothing_stores_nothing() {
    let (_, cart) = cart();
    cart.call::<()>("Touch", ()).unwrap();
    assert_eq!(cart.version(), 0);
    cart.set_state(2, r#"{"total":1e0, "lines":{}}"#); // as another SDK may write it
    let before = cart.version();
    assert_eq!(code(cart.query::<i64>("Total", ())), "bad_state");
    cart.set_state(2, r#"{"total": 1 }"#);
    cart.call::<()>("Touch", ()).unwrap();
    assert_eq!(
        (cart.version(), cart.state_json().as_str()),
        (before + 1, r#"{"total":1}"#)
    );
}

#[test]
fn a_failed_turn_leaves_no_trace() {
    let (_, cart) = cart();
    cart.call::<u32>("Add", line("tea", 2)).unwrap();
    let before = (cart.version(), cart.state_json());
    let error = cart.call::<()>("Fail", ()).unwrap_err();
    assert_eq!(error.status(), Status::ResourceExhausted);
    assert_eq!(
        (error.code(), error.message()),
        ("out_of_stock", "only 3 left")
    );
    assert!(error.is_retryable());
    assert_eq!(
        error.detail(),
        Ok(BTreeMap::from([("left".to_string(), 3)]))
    );
    assert_eq!((cart.version(), cart.state_json()), before);
    assert_eq!(cart.query("Total", ()), Ok(2));
}

#[test]
fn a_panic_leaves_no_trace() {
    let (_, cart) = cart();
    cart.call::<u32>("Add", line("tea", 2)).unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| cart.call::<()>("Panic", ()))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the shelf fell down"));
    assert_eq!(cart.query("Total", ()), Ok(2));
}

#[test]
fn keys_of_others_are_kept() {
    let (_, cart) = cart();
    cart.set_state(2, r#"{"total":1,"coupon":"X"}"#);
    cart.call::<u32>("Add", line("tea", 1)).unwrap();
    assert_eq!(cart.call("Note", "hello"), Ok(true));
    assert_eq!(cart.keys(), ["coupon", "lines", "note", "total"]);
    assert_eq!(cart.get("coupon"), Ok(Some("X".to_string())));
    assert_eq!(cart.query("Keys", "co"), Ok(vec!["coupon".to_string()]));
    assert_eq!(cart.call("Note", ()), Ok(true));
    assert_eq!(cart.call("Note", ()), Ok(false));
    assert_eq!(cart.get::<String>("note"), Ok(None));
}

#[test]
fn a_key_that_is_set_directly_is_seen_by_the_struct() {
    let (_, cart) = cart();
    cart.call::<u32>("Add", line("tea", 2)).unwrap();
    cart.call::<()>("SetTotal", 7).unwrap();
    assert_eq!(cart.query("Total", ()), Ok(7));
    cart.call::<u32>("Add", line("tea", 2)).unwrap();
    assert_eq!(cart.query("Total", ()), Ok(9));
}

#[test]
fn delete_all_leaves_nothing_but_what_is_set_after_it() {
    let (_, cart) = cart();
    cart.call::<u32>("Add", line("tea", 2)).unwrap();
    cart.call::<bool>("Note", "n").unwrap();
    assert_eq!(cart.call("Clear", ()), Ok(3));
    assert_eq!(cart.state_json(), "{}");
    assert_eq!(cart.query("Total", ()), Ok(0));
    cart.call::<u32>("Add", line("tea", 2)).unwrap();
    cart.call::<()>("Restart", "me").unwrap();
    assert_eq!(cart.state_json(), r#"{"owner":"me"}"#);
    cart.call::<u32>("Add", line("tea", 2)).unwrap();
    cart.call::<()>("Rebuild", ()).unwrap();
    assert_eq!(cart.state_json(), r#"{"lines":{"tea":2},"total":2}"#);
    assert_eq!(cart.call("ClearKeys", ()), Ok(2));
    assert_eq!(
        (cart.state_json().as_str(), cart.query("Total", ())),
        ("{}", Ok(0))
    );
}

#[test]
fn what_was_stored_behind_the_guest_is_seen() {
    let (_, cart) = cart();
    cart.call::<u32>("Add", line("tea", 2)).unwrap();
    cart.set_state(2, r#"{"total":50}"#);
    assert_eq!(cart.query("Total", ()), Ok(50));
    cart.delete();
    assert_eq!(cart.query("Total", ()), Ok(0));
}

#[test]
fn bad_arguments_are_bad_json() {
    let (_, cart) = cart();
    for (method, payload) in [
        ("Add", "{}"),
        ("Add", "[1]"),
        ("Add", "{"),
        ("Add", "\u{1}"),
        ("SetTotal", "1.5"),
    ] {
        let error = cart
            .call_payload(method, Payload::new("text/html", payload))
            .unwrap_err();
        assert_eq!(error.code(), "bad_json", "{method} {payload:?}");
        assert_eq!(error.status(), Status::InvalidArgument);
    }
    let none = cart.call_payload("Add", Payload::default()).unwrap_err();
    assert_eq!(
        none.message(),
        "the payload is empty; the method takes JSON"
    );
    assert_eq!(code(cart.call::<Line>("Parse", "{")), "bad_json"); // by `?`
}

#[test]
fn raw_payloads_pass_unchanged() {
    let (_, cart) = cart();
    let image = Payload::new("image/png", [0, 255, 7]);
    assert_eq!(cart.call_payload("Echo", image.clone()), Ok(image));
}

#[test]
fn unknown_methods_are_refused() {
    let (_, cart) = cart();
    assert_eq!(code(cart.call::<()>("Nope", ())), "method_not_found");
    assert_eq!(
        code(cart.query::<u32>("Add", line("tea", 1))),
        "not_read_only"
    );
}

#[test]
fn limits_hold() {
    let (_, cart) = cart();
    cart.call::<()>("Grow", 2000).unwrap();
    assert_eq!(cart.get_bytes("blob").map(|b| b.len()), Some(2000));
    let before = cart.version();
    let error = cart.call::<()>("Grow", 3000).unwrap_err();
    assert_eq!(error.status(), Status::FailedPrecondition); // as docs/errors.md has it
    assert_eq!(error.code(), "state_too_large");
    assert_eq!(cart.version(), before);
    let payload = Payload::new("", vec![b' '; 1001]);
    let error = cart.call_payload("Echo", payload).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    assert_eq!(error.code(), "payload_too_large");
    assert_eq!(code(cart.call::<()>("Long", 1001)), "too_large");
    assert_eq!(cart.query("Total", ()), Ok(0)); // though it was in memory
    for length in [0, 513] {
        assert_eq!(code(cart.call::<()>("BadKey", length)), "invalid_key");
    }
    cart.delete();
    cart.call::<()>("BadKey", 512).unwrap();
}

#[test]
fn older_state_is_migrated_in_the_same_commit() {
    let (host, cart) = cart();
    cart.set_state(1, r#"{"user":"ann","total":4}"#);
    let before = cart.version();
    // A read-only method reads the migrated state.
    assert_eq!(cart.query("Total", ()), Ok(4));
    host.drop_memory();
    assert_eq!(cart.call("Add", line("tea", 1)), Ok(1));
    assert_eq!(cart.version(), before + 1);
    assert_eq!(
        cart.state_json(),
        r#"{"lines":{"tea":1},"owner":"ann","total":5}"#
    );

    cart.set_state(1, r#"{"user":"nobody"}"#);
    assert_eq!(code(cart.call::<u32>("Add", line("tea", 1))), "no_user");
    assert_eq!(cart.state_json(), r#"{"user":"nobody"}"#);
    cart.set_state(3, "{}");
    assert_eq!(code(cart.query::<i64>("Total", ())), "schema_newer");
}

#[test]
fn the_turn_is_known_and_repeatable() {
    type Turn = (String, String, i64, u64, u64);
    let run = |seed| {
        let host = Host::with_seed(seed);
        let cart = host.actor::<Cart>("a");
        cart.call::<u32>("Add", line("tea", 1)).unwrap();
        host.advance(Duration::from_millis(1500));
        let turn: Turn = cart.query("Turn", ()).unwrap();
        let next: Turn = cart.query("Turn", ()).unwrap();
        assert_ne!(turn.3, next.3, "two turns, one random stream");
        turn
    };
    let turn = run(1);
    assert_eq!(turn.0, "default||shop.Cart||a");
    assert_eq!(turn.1, "Turn");
    assert_eq!(turn.2, 1_735_732_801_500);
    assert_eq!(turn.4, 1);
    assert_eq!(run(1), turn);
    assert_ne!(run(2).3, turn.3);
    assert_eq!(
        Host::new().now(),
        UNIX_EPOCH + Duration::from_secs(1_735_732_800)
    );
}

#[test]
fn stateless_types_have_no_state() {
    let adder = Host::new().actor::<Adder>("any");
    assert_eq!(adder.query("Sum", [1, 2, 3]), Ok(6));
    assert_eq!(code(adder.query::<i64>("Sum", [i64::MAX, 1])), "overflow");
    assert_eq!(code(adder.call::<()>("Remember", ())), "no_state");
}

#[test]
fn a_detail_that_does_not_fit_is_left_out() {
    let error = Error::new(Status::Internal, "c", "m").with_detail(&"x".repeat(70_000));
    assert_eq!(code(error.detail::<String>()), "no_detail");
    assert_eq!(
        error.message(),
        "m (detail left out: it has 70002 bytes; at most 65536 are allowed)"
    );
}
