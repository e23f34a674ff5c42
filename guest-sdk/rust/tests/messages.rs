//! Actors that send messages, as the test kit delivers them.

use greenroom::life::{LIFE_OVER, PASSED_AWAY, SERVICE_NOT_FOUND, TAKEN};
use greenroom::message::INVALID_MESSAGE;
use greenroom::testing::Host;
use greenroom::watch::INVALID_WATCH;
use greenroom::{Context, Error, ReadContext, Ref, Reminder, Timer};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

greenroom::record! {
    #[derive(Debug, Default)]
    pub struct Depot {
        got: Vec<String>,
        closed: bool,
    }

    #[derive(Debug, Default)]
    pub struct Shop {
        back: Vec<String>,
    }

    #[derive(Debug, Default)]
    pub struct Order {
        to: Vec<String>,
        items: Vec<String>,
        delay_ms: u64,
        forward: String,
        refuse: bool,
    }

    #[derive(Debug, Default)]
    pub struct Egg {
        weight: i64,
    }

    #[derive(Debug, Default)]
    pub struct Hen {
        hatched: Vec<String>,
        cold: Vec<String>,
    }

    #[derive(Debug, Default)]
    pub struct Nest {
        ran: Vec<String>,
        broken: String,
    }

    #[derive(Debug, Default)]
    pub struct Free {}

    #[derive(Debug, Default)]
    pub struct Lobby {
        lost: Vec<String>,
    }
}

fn named(r: Option<Ref>) -> String {
    r.map_or("nobody".to_string(), |r| r.to_string())
}

impl Depot {
    fn take(&mut self, ctx: &Context, item: String) -> Result<(), Error> {
        if self.closed {
            return Err(Error::failed_precondition("closed", item));
        }
        let c = ctx.cause();
        self.got.push(format!(
            "{:?} {item} from {} by {} cookie {} try {}",
            c.kind,
            named(c.from),
            named(c.by),
            c.cookie,
            c.attempt
        ));
        Ok(())
    }

    fn close(&mut self, _: &Context, closed: bool) -> Result<(), Error> {
        self.closed = closed;
        Ok(())
    }

    fn serve(&self, ctx: &Context, name: String) -> Result<(), Error> {
        ctx.claim(&name)
    }

    fn unserve(&self, ctx: &Context, name: String) -> Result<bool, Error> {
        ctx.release(&name)
    }

    fn look(&self, _: &ReadContext) -> Result<Vec<String>, Error> {
        Ok(self.got.clone())
    }
}

impl Shop {
    fn send(&mut self, ctx: &Context, o: Order) -> Result<(), Error> {
        let to = Ref::new(&o.to[0], &o.to[1]);
        for (i, item) in o.items.iter().enumerate() {
            let mut m = to.message("Take", item).on_undelivered("Lost");
            m = m.cookie(i as u64 + 1);
            if o.delay_ms > 0 {
                m = m.delay(Duration::from_millis(o.delay_ms));
            }
            if !o.forward.is_empty() {
                m = m.forward(Ref::of::<Depot>(&o.forward));
            }
            m.send(ctx)?;
        }
        if o.refuse {
            return Err(Error::failed_precondition("refused", "on purpose"));
        }
        Ok(())
    }

    fn agent(&self, ctx: &Context, of: String) -> Result<(), Error> {
        Ref::of::<Depot>("north")
            .message("Take", "tea")
            .on_behalf(Ref::of::<Shop>(of))
            .send(ctx)
    }

    fn tell(&self, ctx: &Context, o: Order) -> Result<(), Error> {
        let to = Ref::new(&o.to[0], &o.to[1]);
        for item in &o.items {
            ctx.publish("told", item.clone())?;
            let m = to.message("Take", item).on_undelivered("Lost");
            m.cookie(5).channel(2).tell(ctx)?;
        }
        if o.refuse {
            return Err(Error::failed_precondition("refused", "on purpose"));
        }
        Ok(())
    }

    fn nested(&mut self, ctx: &Context) -> Result<(), Error> {
        let north = Ref::of::<Depot>("north");
        north.message("Take", "before").send(ctx)?;
        let order = Order {
            refuse: true,
            ..order("north", &["tea"])
        };
        let other = Ref::of::<Shop>("other");
        let failed = other.message("Send", &order).call::<()>(ctx, self);
        assert!(failed.is_err());
        north.message("Take", "after").send(ctx)
    }

    fn lost(&mut self, ctx: &Context, item: String) -> Result<(), Error> {
        let c = ctx.cause();
        self.back.push(format!(
            "{:?} {item} not to {} cookie {}: {}",
            c.kind,
            named(c.from),
            c.cookie,
            c.failed
        ));
        Ok(())
    }

    fn wrong(&self, ctx: &Context, how: String) -> Result<(), Error> {
        let depot = Ref::of::<Depot>("d");
        let good = depot.message("Take", "x");
        match how.as_str() {
            "type" => Ref::new("Nobody", "d").message("Take", "x").send(ctx),
            "id" => Ref::of::<Depot>("").message("Take", "x").send(ctx),
            "method" => depot.message("Fly", "x").send(ctx),
            "read-only" => depot.message("Look", "x").send(ctx),
            "payload" => depot.message("Take", &"x".repeat(65536)).send(ctx),
            "undelivered" => good.on_undelivered("Fly").send(ctx),
            "forward" => good.forward(Ref::new("Nobody", "d")).send(ctx),
            "late" => good.delay(Duration::from_secs(u64::MAX)).send(ctx),
            "atomic" => good.atomic().send(ctx),
            "service" => Ref::service("nobody").message("Take", "x").send(ctx),
            "many" => (0..257).try_for_each(|_| good.clone().send(ctx)),
            _ => (0..18).try_for_each(|_| depot.message("Take", &"x".repeat(65000)).send(ctx)),
        }
    }
}

impl Egg {
    fn grow(&mut self, _: &Context, by: i64) -> Result<i64, Error> {
        self.weight += by;
        Ok(self.weight)
    }

    /// What is done after the end of its life is refused, but for messages.
    fn hatch(&mut self, ctx: &Context) -> Result<String, Error> {
        ctx.reminders()
            .set(Reminder::once("never", "Grow", Duration::from_secs(3600)))?;
        ctx.pass_away()?;
        self.weight = 7;
        let codes = [
            ctx.state().set("weight", &1).unwrap_err(),
            ctx.pass_away().unwrap_err(),
            ctx.spawn::<Egg>().unwrap_err(),
            ctx.become_("").unwrap_err(),
            ctx.claim("egg").unwrap_err(),
            ctx.reminders().set(Reminder::new("r", "Grow")).unwrap_err(),
            ctx.timers().set(Timer::new("t", "Grow")).unwrap_err(),
        ];
        assert!(codes.iter().all(|e| e.code() == LIFE_OVER), "{codes:?}");
        Ref::of::<Hen>("h").message("Hatched", ctx.id()).send(ctx)?;
        Ok("hatched".to_string())
    }
}

impl Nest {
    fn note(&mut self, name: &str) -> Result<(), Error> {
        self.ran.push(name.to_string());
        if self.broken == name {
            return Err(Error::unavailable("broken", "as told"));
        }
        Ok(())
    }
    fn made(&mut self, _: &Context) -> Result<(), Error> {
        self.note("made")
    }
    fn woken(&mut self, _: &Context) -> Result<(), Error> {
        self.note("woken")
    }
    fn left(&mut self, ctx: &Context) -> Result<(), Error> {
        let call = Ref::of::<Nest>("other").message("Sit", &());
        let refused = call.call::<()>(ctx, self).unwrap_err();
        assert_eq!(refused.code(), greenroom::call::NOT_ATOMIC);
        self.note("left")
    }
    fn sit(&mut self, _: &Context) -> Result<(), Error> {
        Ok(())
    }
    fn break_(&mut self, _: &Context, name: String) -> Result<(), Error> {
        self.broken = name;
        Ok(())
    }
    fn end(&mut self, ctx: &Context) -> Result<(), Error> {
        ctx.pass_away()
    }
    fn look(&self, _: &ReadContext) -> Result<Vec<String>, Error> {
        Ok(self.ran.clone())
    }
}

impl Hen {
    fn lay(&mut self, ctx: &Context, refuse: bool) -> Result<String, Error> {
        let egg = ctx.spawn::<Egg>()?;
        let early = egg.message("Grow", &5).call::<i64>(ctx, self);
        assert_eq!(early.unwrap_err().code(), greenroom::call::NOT_ATOMIC);
        egg.message("Grow", &5).send(ctx)?;
        if refuse {
            return Err(Error::failed_precondition("no", "no"));
        }
        Ok(egg.id)
    }

    fn lay_wrong(&self, ctx: &Context, of: String) -> Result<String, Error> {
        Ok(ctx.spawn_named(&of)?.id)
    }

    fn hatched(&mut self, _: &Context, id: String) -> Result<(), Error> {
        self.hatched.push(id);
        Ok(())
    }

    fn warm(&self, ctx: &Context, id: String) -> Result<(), Error> {
        Ref::of::<Egg>(id)
            .message("Grow", &1)
            .delay(Duration::from_secs(3600))
            .on_undelivered("GotCold")
            .send(ctx)
    }

    fn got_cold(&mut self, ctx: &Context, _: i64) -> Result<(), Error> {
        self.cold.push(ctx.cause().failed);
        Ok(())
    }
}

impl Free {
    fn touch(&self, _: &Context) -> Result<(), Error> {
        Ok(())
    }
}

fn player(id: &str) -> Ref {
    Ref::of::<Lobby>(id)
}

impl Lobby {
    fn join(&mut self, ctx: &Context, id: String) -> Result<(), Error> {
        player(&id).watch_host(ctx, "Gone")
    }

    fn join_and_fail(&mut self, ctx: &Context, id: String) -> Result<(), Error> {
        self.join(ctx, id)?;
        Err(Error::failed_precondition("full", "the lobby is full"))
    }

    /// Joins in a called turn that fails.
    fn try_join(&mut self, ctx: &Context, id: String) -> Result<(), Error> {
        let other = Ref::of::<Lobby>("other");
        let failed = other.message("JoinAndFail", &id).call::<()>(ctx, self);
        assert!(failed.is_err());
        Ok(())
    }

    fn leave(&mut self, ctx: &Context, id: String) -> Result<bool, Error> {
        player(&id).unwatch_host(ctx)
    }

    fn gone(&mut self, ctx: &Context) -> Result<(), Error> {
        let c = ctx.cause();
        let lost = format!("{:?} {} {}", c.kind, named(c.from), c.failed);
        self.lost.push(lost);
        Ok(())
    }

    fn end(&mut self, ctx: &Context) -> Result<(), Error> {
        ctx.pass_away()?;
        let error = player("late").watch_host(ctx, "Gone").unwrap_err();
        assert_eq!(error.code(), LIFE_OVER);
        Ok(())
    }

    fn wrong(&mut self, ctx: &Context, method: String) -> Result<(), Error> {
        if method == "nobody" {
            return Ref::service("ann").watch_host(ctx, &method);
        }
        player("ann").watch_host(ctx, &method)
    }
}

greenroom::actors! {
    Lobby {
        methods: {
            "Join" => join,
            "JoinAndFail" => join_and_fail,
            "Try" => try_join,
            "Leave" => leave,
            "Gone" => private gone,
            "End" => end,
            "Wrong" => wrong,
        },
    }
    Depot {
        methods: {
            "Take" => private take,
            "Close" => close,
            "Serve" => serve,
            "Unserve" => unserve,
            "Look" => read_only look,
        },
        messages: { attempts: 3, interval_ms: 1000, max_ms: 2000, age_ms: 3_600_000 },
    }
    Shop {
        methods: {
            "Send" => send,
            "Agent" => agent,
            "Tell" => tell,
            "Nested" => nested,
            "Lost" => private lost,
            "Wrong" => wrong,
        }
    }
    Egg { methods: { "Grow" => grow, "Hatch" => hatch }, spawn_only: true }
    Hen {
        methods: {
            "Lay" => lay,
            "LayWrong" => lay_wrong,
            "Hatched" => hatched,
            "Warm" => warm,
            "GotCold" => got_cold,
        },
    }
    Nest {
        methods: {
            "Sit" => sit,
            "Break" => break_,
            "End" => end,
            "Look" => read_only look,
            "Made" => private made,
            "Woken" => private woken,
            "Left" => private left,
        },
        hooks: { created: "Made", activated: "Woken", leaving: "Left" },
    }
    Free { methods: { "Touch" => touch }, placement: stateless }
}

fn order(to: &str, items: &[&str]) -> Order {
    Order {
        to: vec!["Depot".to_string(), to.to_string()],
        items: items.iter().map(|i| i.to_string()).collect(),
        ..Order::default()
    }
}

fn host() -> Host {
    Host::of(&GREENROOM_MODULE)
}

fn do_(host: &Host, actor_type: &str, id: &str, method: &str, input: impl greenroom::Output) {
    let actor = host.actor_named(actor_type, id);
    actor.call::<()>(method, input).unwrap();
}

fn stock(host: &Host, id: &str) -> Vec<String> {
    host.actor_named("Depot", id).query("Look", ()).unwrap()
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn what_is_told_and_published() {
    let host = host();
    do_(&host, "Shop", "a", "Tell", order("north", &["tea", "milk"]));
    let refused = Order {
        refuse: true,
        ..order("north", &["salt"])
    };
    let shop = host.actor_named("Shop", "a");
    assert!(shop.call::<()>("Tell", refused).is_err());
    assert!(host.sent().iter().all(|m| m.volatile) && host.sent().len() == 2);
    assert_eq!((host.deliver(), host.deliver()), (2, 0));
    let told = "Message tea from Shop||a by nobody cookie 5 try 1".to_string();
    assert_eq!(stock(&host, "north").first(), Some(&told));
    let events = host.events("Shop", "a");
    assert_eq!(events.len(), 2);
    assert_eq!(events[1].name, "told");
    assert_eq!(events[1].payload.body, b"\"milk\"");
    host.actor_named("Depot", "north").send("Close", true);
    host.deliver();
    do_(&host, "Shop", "a", "Tell", order("north", &["late"]));
    assert_eq!(host.deliver(), 2);
    assert_eq!(host.deliver(), 0);
    assert!(host.dead_messages().is_empty());
    let back: Vec<String> = shop.get("back").unwrap().unwrap();
    assert_eq!(back.len(), 1);
    assert!(back[0].starts_with("Undelivered late not to"), "{back:?}");
}

#[test]
fn hooks_run_as_on_a_host() {
    let host = host();
    let nest = host.actor_named("Nest", "n");
    let ran = || -> Vec<String> { nest.query("Look", ()).unwrap() };
    let sit = || nest.call::<()>("Sit", ());
    assert!(ran().is_empty()); // a read-only method runs none
    nest.leave().unwrap(); // it has not begun to live
    assert!(ran().is_empty());
    sit().unwrap();
    sit().unwrap();
    assert_eq!(ran(), ["made", "woken"]);
    nest.deactivate();
    nest.leave().unwrap(); // it was not in memory
    assert_eq!(ran(), ["made", "woken"]);
    sit().unwrap();
    nest.leave().unwrap();
    assert_eq!(ran(), ["made", "woken", "woken", "left"]);
    do_(&host, "Nest", "n", "Break", "left");
    assert_eq!(nest.leave().unwrap_err().code(), "broken");
    assert_eq!(ran().len(), 5);
    do_(&host, "Nest", "n", "Break", "woken");
    nest.deactivate();
    assert_eq!(sit().unwrap_err().message(), "the hook Woken: as told");
    nest.set_state(0, r#"{"ran": []}"#);
    sit().unwrap();
    assert_eq!(ran(), ["woken"]);
    do_(&host, "Nest", "n", "End", ());
    assert!(ran().is_empty());
    sit().unwrap();
    assert_eq!(ran(), ["made", "woken"]);
}

#[test]
fn messages_arrive_once_and_in_order() {
    let host = host();
    do_(&host, "Shop", "a", "Send", order("north", &["tea", "milk"]));
    do_(&host, "Shop", "b", "Agent", "c".to_string());
    let refused = Order {
        refuse: true,
        ..order("north", &["salt"])
    };
    let shop = host.actor_named("Shop", "a");
    assert!(shop.call::<()>("Send", refused).is_err());
    host.actor_named("Depot", "north").send("Close", false);
    let sent = host.sent();
    assert_eq!(sent.len(), 4);
    assert_eq!(sent[0].from.as_ref().unwrap().id, "a");
    assert_eq!(sent[2].by.as_ref().unwrap().id, "b");
    assert_eq!(sent[3].from, None);
    assert!(stock(&host, "north").is_empty());
    assert_eq!((host.deliver(), host.deliver()), (4, 0));
    assert_eq!(
        stock(&host, "north"),
        [
            "Message tea from Shop||a by nobody cookie 1 try 1",
            "Message milk from Shop||a by nobody cookie 2 try 1",
            "Message tea from Shop||c by Shop||b cookie 0 try 1",
        ]
    );
    assert!(host.sent().is_empty());
}

#[test]
fn a_message_that_fails_holds_back_its_senders_later_ones() {
    let host = host();
    do_(&host, "Depot", "north", "Close", true);
    do_(&host, "Shop", "a", "Send", order("north", &["tea"]));
    assert_eq!(host.deliver(), 1);
    let sent = host.sent();
    assert_eq!(
        (sent[0].failures, sent[0].deliver_at),
        (1, host.now() + secs(1))
    );
    do_(&host, "Depot", "north", "Close", false);
    do_(&host, "Shop", "a", "Send", order("north", &["milk"]));
    do_(&host, "Shop", "b", "Send", order("north", &["salt"]));
    let late = Order {
        delay_ms: 10_000,
        ..order("north", &["late"])
    };
    do_(&host, "Shop", "a", "Send", late);
    assert_eq!(host.deliver(), 1);
    host.advance(secs(5));
    host.advance(secs(5));
    let got = stock(&host, "north");
    let items: Vec<_> = got.iter().map(|g| g.split(' ').nth(1).unwrap()).collect();
    assert_eq!(items, ["salt", "tea", "milk", "late"]);
    assert!(got[1].ends_with("try 2"));
}

#[test]
fn undelivered_messages_come_back() {
    let host = host();
    do_(&host, "Depot", "north", "Close", true);
    do_(&host, "Depot", "south", "Close", true);
    do_(&host, "Shop", "a", "Send", order("north", &["tea"]));
    let forwarded = Order {
        forward: "south".to_string(),
        ..order("north", &["milk"])
    };
    do_(&host, "Shop", "a", "Send", forwarded);
    host.advance(secs(60));
    let shop = host.actor_named("Shop", "a");
    let back: Vec<String> = shop.get("back").unwrap().unwrap();
    assert_eq!(
        back,
        [
            "Undelivered tea not to Depot||north cookie 1: closed",
            "Undelivered milk not to Depot||south cookie 1: closed",
        ]
    );
    let dead = host.dead_messages();
    assert_eq!(dead.len(), 2);
    assert_eq!(
        (dead[0].message.failures, dead[1].message.to.id.as_str()),
        (3, "south")
    );
    // A message that comes back to a receiver it was at is undelivered, and so is one that is
    // too old.
    let looping = Order {
        forward: "north".to_string(),
        ..order("north", &["loop"])
    };
    do_(&host, "Shop", "a", "Send", looping);
    host.advance(secs(60));
    assert_eq!((host.dead_messages().len(), host.sent().len()), (3, 0));
}

#[test]
fn a_message_is_delivered_twenty_five_times() {
    let host = host();
    let tries = Rc::new(RefCell::new(0));
    let counted = tries.clone();
    host.fake("Depot", "Take", move |_: &str, _: String| {
        *counted.borrow_mut() += 1;
        Err::<(), _>(Error::unavailable("busy", "not now"))
    });
    host.fake("Slow", "Take", |_: &str, _: String| {
        Err::<(), _>(Error::unavailable("busy", "not now"))
    });
    let mut slow = order("s", &["x"]);
    slow.to[0] = "Slow".to_string();
    do_(&host, "Shop", "a", "Send", slow);
    do_(&host, "Shop", "a", "Send", order("north", &["x"]));
    host.advance(secs(4 * 24 * 3600));
    assert_eq!(*tries.borrow(), 3);
    let failures: Vec<_> = host
        .dead_messages()
        .iter()
        .map(|d| d.message.failures)
        .collect();
    assert_eq!(failures, [3, 25]);
}

#[test]
fn a_failed_call_sends_nothing() {
    let host = host();
    do_(&host, "Shop", "a", "Nested", ());
    let sent = host.sent();
    let sent: Vec<_> = sent.iter().map(|m| m.input.body.as_slice()).collect();
    assert_eq!(sent, [b"\"before\"".as_slice(), b"\"after\""]);
}

#[test]
fn services_name_an_actor() {
    let host = host();
    do_(&host, "Depot", "north", "Serve", "shipping".to_string());
    let south = host.actor_named("Depot", "south");
    let taken = south
        .call::<()>("Serve", "shipping".to_string())
        .unwrap_err();
    assert_eq!(taken.code(), TAKEN);
    let mut to_service = order("shipping", &["tea"]);
    to_service.to[0] = String::new();
    do_(&host, "Shop", "a", "Send", to_service);
    assert_eq!(host.sent()[0].to.id, "north");
    assert_eq!(south.call("Unserve", "shipping".to_string()), Ok(false));
    let north = host.actor_named("Depot", "north");
    assert_eq!(north.call("Unserve", "shipping".to_string()), Ok(true));
    assert_eq!(host.service("shipping"), None);
    let long = north.call::<()>("Serve", "s".repeat(257)).unwrap_err();
    assert_eq!(long.code(), "invalid_service");
}

#[test]
fn messages_that_cannot_be_say_why() {
    let host = host();
    let shop = host.actor_named("Shop", "a");
    for (how, says) in [
        ("type", "no actor type \"Nobody\""),
        ("id", "needs a type"),
        ("method", "no method \"Fly\""),
        ("read-only", "is read-only"),
        (
            "undelivered",
            "undelivered: actor type Shop has no method \"Fly\"",
        ),
        ("forward", "forward: there is no actor type"),
        ("late", "292 years"),
        ("atomic", "only calls are atomic"),
    ] {
        let e = shop.call::<()>("Wrong", how.to_string()).unwrap_err();
        assert_eq!(e.code(), INVALID_MESSAGE, "{how}: {e}");
        assert!(e.message().contains(says), "{how}: {e}");
    }
    for (how, code) in [
        ("service", SERVICE_NOT_FOUND),
        ("many", "too_many"),
        ("payload", "too_large"),
        ("bytes", "too_large"),
    ] {
        let e = shop.call::<()>("Wrong", how.to_string()).unwrap_err();
        assert_eq!(e.code(), code, "{how}: {e}");
    }
    assert!(host.sent().is_empty());
}

#[test]
fn spawned_actors_stay_dead() {
    let host = host();
    let mine = host.actor_named("Egg", "mine");
    assert_eq!(mine.call::<i64>("Grow", 1).unwrap_err().code(), PASSED_AWAY);
    let hen = host.actor_named("Hen", "h");
    assert!(hen.call::<String>("Lay", true).is_err());
    let id: String = hen.call("Lay", false).unwrap();
    let second: String = hen.call("Lay", false).unwrap();
    assert_ne!(id, second);
    assert_eq!(host.deliver(), 2);
    let egg = host.actor_named("Egg", &id);
    assert_eq!(egg.get("weight"), Ok(Some(5)));
    do_(&host, "Hen", "h", "Warm", id.clone());
    assert_eq!(egg.call("Hatch", ()), Ok("hatched".to_string()));
    assert_eq!(egg.call::<i64>("Grow", 1).unwrap_err().code(), PASSED_AWAY);
    assert!(egg.keys().is_empty());
    host.advance(secs(7200));
    assert_eq!(hen.get("hatched"), Ok(Some(vec![id])));
    assert_eq!(hen.get("cold"), Ok(Some(vec![PASSED_AWAY.to_string()])));
    assert!(host.reminders().is_empty());
    for of in ["Nobody", "Free"] {
        let e = hen.call::<String>("LayWrong", of.to_string()).unwrap_err();
        assert_eq!(e.code(), "invalid_type", "{of}: {e}");
    }
}

#[cfg(feature = "macros")]
mod door {
    use super::*;
    use greenroom::life::NOT_ACCEPTED;
    use std::time::UNIX_EPOCH;

    greenroom::record! {
        #[derive(Debug, Default)]
        pub struct Door { steps: u32 }

        #[derive(Debug, Default)]
        pub struct Gate { entered: u32 }
    }

    #[greenroom::actor(wait_outside_set)]
    impl Gate {
        #[method(in = "open")]
        fn enter(&mut self, _: &Context) -> Result<(), Error> {
            self.entered += 1;
            Ok(())
        }

        #[method(in = "open", in = "closed")]
        fn set(&self, ctx: &Context, set: String) -> Result<(), Error> {
            ctx.become_(&set)
        }
    }

    #[greenroom::actor(reference = pub DoorRef)]
    impl Door {
        fn open(&mut self, ctx: &Context) -> Result<String, Error> {
            self.steps += 1;
            ctx.become_("open")?;
            Ok(ctx.method_set().to_string())
        }

        #[method(in = "open", in = "ajar")]
        fn close(&self, ctx: &Context, set: String) -> Result<(), Error> {
            ctx.become_(&set)
        }

        #[method(in = "open")]
        fn enter(&mut self, _: &Context) -> Result<(), Error> {
            self.steps += 1;
            Ok(())
        }

        fn fall(&self, ctx: &Context) -> Result<(), Error> {
            ctx.become_("open")?;
            Err(Error::failed_precondition("fell", "it falls"))
        }

        fn push(&self, ctx: &Context, id: String) -> Result<(), Error> {
            DoorRef::new(id).enter().cookie(7).at(UNIX_EPOCH).send(ctx)
        }
    }

    #[test]
    fn messages_outside_a_set_wait() {
        let host = Host::new();
        let gate = host.actor::<Gate>("g");
        gate.call::<()>("Set", "closed".to_string()).unwrap();
        gate.send("Enter", ());
        host.advance(secs(3600));
        let sent = host.sent();
        assert_eq!((host.deliver(), sent.len(), sent[0].failures), (0, 1, 0));
        let refused = gate.call::<()>("Enter", ()).unwrap_err(); // nobody can wait for it
        assert_eq!(refused.code(), NOT_ACCEPTED);
        gate.call::<()>("Set", "open".to_string()).unwrap();
        assert_eq!((host.deliver(), host.sent().len()), (1, 0));
        assert_eq!(gate.get("entered"), Ok(Some(1)));
    }

    #[test]
    fn sets_of_methods() {
        let host = Host::new();
        let door = host.actor::<Door>("d");
        door.call::<()>("Enter", ()).unwrap();
        door.call::<()>("Close", "ajar".to_string()).unwrap();
        assert_eq!(host.method_set("Door", "d"), "ajar");
        let e = door.call::<()>("Enter", ()).unwrap_err();
        assert_eq!(e.code(), NOT_ACCEPTED);
        assert!(door.call::<()>("Fall", ()).is_err());
        assert_eq!(host.method_set("Door", "d"), "ajar");
        let other = host.actor::<Door>("e");
        other.call::<()>("Push", "d".to_string()).unwrap();
        assert_eq!(host.sent()[0].cookie, 7);
        assert_eq!((host.deliver(), host.sent().len()), (1, 1));
        assert_eq!(door.call("Open", ()), Ok("ajar".to_string()));
        host.advance(secs(1));
        assert_eq!(door.get("steps"), Ok(Some(3)));
        door.call::<()>("Close", String::new()).unwrap();
        assert_eq!(host.method_set("Door", "d"), "");
        let e = door.call::<()>("Close", "locked".to_string()).unwrap_err();
        assert_eq!(e.code(), "invalid_set");
    }
}

fn lost(host: &Host) -> Vec<String> {
    host.deliver();
    let lost = host.actor_named("Lobby", "l").get("lost");
    lost.unwrap().unwrap_or_default()
}

#[test]
fn a_watched_host_is_lost_once() {
    let host = host();
    for id in ["ann", "bob", "cid"] {
        do_(&host, "Lobby", "l", "Join", id.to_string());
    }
    let left = host.actor_named("Lobby", "l").call("Leave", "bob");
    assert_eq!(left, Ok(true));
    do_(&host, "Lobby", "l", "Try", "dan".to_string());
    for id in ["ann", "ann", "bob", "dan"] {
        host.actor_named("Lobby", id).disconnect();
    }
    assert_eq!(lost(&host), ["Disconnected Lobby||ann disconnected"]);
    host.actor_named("Lobby", "l").move_away();
    host.actor_named("Lobby", "cid").disconnect();
    assert_eq!(
        lost(&host),
        [
            "Disconnected Lobby||ann disconnected",
            "Disconnected Lobby||cid moved"
        ]
    );
}

#[test]
fn watches_end_unsaid_with_a_life() {
    let host = host();
    do_(&host, "Lobby", "l", "Join", "ann".to_string());
    do_(&host, "Lobby", "l", "End", ());
    host.actor_named("Lobby", "ann").disconnect();
    assert_eq!(host.deliver(), 0);
    let lobby = host.actor_named("Lobby", "l");
    for (method, want) in [
        ("", "names no method"),
        ("Missing", "no method \"Missing\""),
        ("nobody", "the type and the ID"),
    ] {
        let error = lobby.call::<()>("Wrong", method).unwrap_err();
        assert_eq!(error.code(), INVALID_WATCH);
        assert!(error.message().contains(want), "{error}");
    }
    for i in 0..100 {
        do_(&host, "Lobby", "l", "Join", i.to_string());
    }
    let error = lobby.call::<()>("Join", "x").unwrap_err();
    assert_eq!(error.code(), "too_many");
    do_(&host, "Lobby", "l", "Join", "7".to_string());
}
