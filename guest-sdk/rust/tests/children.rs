//! Actors with volatile children, as the test kit runs them.

use greenroom::life::PASSED_AWAY;
use greenroom::testing::{ActorRef, Host};
use greenroom::{Context, Error, Mailbox, Ref, Reminder, Timer};
use std::time::Duration;

greenroom::record! {
    #[derive(Debug, Default)]
    pub struct Foreman {
        helpers: Vec<String>,
        done: Vec<i64>,
        back: Vec<String>,
    }

    #[derive(Debug, Default)]
    pub struct Order {
        helper: String,
        add: i64,
        tell: bool,
        fail: bool,
        method: String,
    }

    #[derive(Debug, Default)]
    pub struct Helper {
        sum: i64,
    }

    #[derive(Debug, Default)]
    pub struct Nomad {
        n: i64,
    }
}

impl Foreman {
    fn hire(&mut self, ctx: &Context, shared: bool) -> Result<String, Error> {
        let mailbox = if shared {
            Mailbox::Shared
        } else {
            Mailbox::Own
        };
        let helper = ctx.spawn_child::<Helper>(mailbox)?;
        let early = helper.message("Add", &5).call::<i64>(ctx, self);
        assert_eq!(early.unwrap_err().code(), greenroom::call::NOT_ATOMIC);
        self.helpers.push(helper.id.clone());
        let first = helper.message("Add", &1).on_undelivered("CameBack");
        first.tell(ctx)?;
        Ok(helper.id)
    }

    fn hire_many(&self, ctx: &Context, n: u32) -> Result<u32, Error> {
        for i in 0..n {
            match ctx.spawn_child::<Helper>(Mailbox::Own) {
                Err(e) if e.code() == "too_many" => return Ok(i),
                made => made.map(drop)?,
            }
        }
        Ok(n)
    }

    fn hire_wrong(&self, ctx: &Context, of: String) -> Result<String, Error> {
        Ok(ctx.spawn_child_named(&of, Mailbox::Own)?.id)
    }

    fn order(&mut self, ctx: &Context, o: Order) -> Result<i64, Error> {
        let helper = Ref::of::<Helper>(o.helper);
        let mut sum = 0;
        if o.tell {
            let add = helper.message("Add", &o.add).on_undelivered("CameBack");
            add.tell(ctx)?;
        } else if o.method.is_empty() {
            sum = helper.message("Add", &o.add).call(ctx, self)?;
        } else {
            let all = self.helpers.clone();
            helper.message(&o.method, &all).call::<()>(ctx, self)?;
        }
        if o.fail {
            return Err(Error::failed_precondition("no", "no"));
        }
        Ok(sum)
    }

    fn finished(&mut self, _: &Context, n: i64) -> Result<(), Error> {
        self.done.push(n);
        Ok(())
    }

    fn came_back(&mut self, ctx: &Context, _: i64) -> Result<(), Error> {
        self.back.push(ctx.cause().failed);
        Ok(())
    }

    fn go(&mut self, ctx: &Context) -> Result<(), Error> {
        ctx.pass_away()
    }
}

impl Helper {
    fn add(&mut self, ctx: &Context, n: i64) -> Result<i64, Error> {
        self.sum += n;
        if self.sum >= 10 {
            let foreman = Ref::of::<Foreman>("f");
            foreman.message("Finished", &self.sum).tell(ctx)?;
        }
        Ok(self.sum)
    }

    fn pass(&mut self, ctx: &Context, _: Vec<String>) -> Result<(), Error> {
        ctx.pass_away()
    }

    fn share(&mut self, ctx: &Context, all: Vec<String>) -> Result<(), Error> {
        for other in all.into_iter().filter(|other| other != ctx.id()) {
            let other = Ref::of::<Helper>(other);
            other.message("Add", &1).call::<i64>(ctx, self)?;
        }
        Ok(())
    }

    /// What a helper does not do.
    fn attempt(&mut self, ctx: &Context, _: Vec<String>) -> Result<(), Error> {
        let foreman = Ref::of::<Foreman>("f");
        let codes = [
            ctx.spawn::<Helper>().unwrap_err(),
            ctx.spawn_child::<Helper>(Mailbox::Own).unwrap_err(),
            ctx.claim("s").unwrap_err(),
            ctx.release("s").unwrap_err(),
            ctx.reminders().set(Reminder::new("r", "Add")).unwrap_err(),
            ctx.reminders().cancel("r").unwrap_err(),
            ctx.reminders().get("r").unwrap_err(),
            ctx.timers().set(Timer::new("t", "Add")).unwrap_err(),
            ctx.timers().cancel("t").unwrap_err(),
            foreman.message("Finished", &1).send(ctx).unwrap_err(),
            ctx.publish("e", 1).unwrap_err(),
            ctx.subscribe(&foreman, "Add").unwrap_err(),
            ctx.unsubscribe(&foreman).unwrap_err(),
            foreman.watch_host(ctx, "Add").unwrap_err(),
        ];
        for (i, e) in codes.iter().enumerate() {
            assert_eq!(e.code(), "no_state", "{i}: {e}");
        }
        let stranger = Ref::of::<Foreman>("stranger");
        let told = stranger.message("Finished", &1).tell(ctx).unwrap_err();
        assert_eq!(told.code(), greenroom::message::INVALID_MESSAGE);
        let called = stranger.message("HireMany", &1).call::<u32>(ctx, self);
        assert_eq!(called.unwrap_err().code(), greenroom::call::INVALID_CALL);
        Ok(())
    }
}

impl Nomad {
    fn hire_wrong(&self, ctx: &Context, of: String) -> Result<String, Error> {
        Ok(ctx.spawn_child_named(&of, Mailbox::Own)?.id)
    }
}

greenroom::actors! {
    Foreman {
        methods: {
            "Hire" => hire,
            "HireMany" => hire_many,
            "HireWrong" => hire_wrong,
            "Order" => order,
            "Finished" => finished,
            "CameBack" => came_back,
            "Go" => go,
        }
    }
    Helper { methods: { "Add" => add, "Pass" => pass, "Share" => share, "Try" => attempt } }
    Nomad { methods: { "HireWrong" => hire_wrong }, placement: any }
}

fn host() -> Host {
    Host::of(&GREENROOM_MODULE)
}

fn order(helper: &str, add: i64) -> Order {
    Order {
        helper: helper.to_string(),
        add,
        ..Order::default()
    }
}

fn add(foreman: &ActorRef, helper: &str, n: i64) -> Result<i64, Error> {
    foreman.call("Order", order(helper, n))
}

/// A child works for its parent, in its transaction and by messages, and is unknown to others.
#[test]
fn children_work_for_their_parent() {
    let host = host();
    let foreman = host.actor_named("Foreman", "f");
    let one: String = foreman.call("Hire", false).unwrap();
    let two: String = foreman.call("Hire", true).unwrap();
    assert_eq!(host.deliver(), 2);
    assert_eq!(add(&foreman, &one, 2), Ok(3));
    for (helper, tell) in [(&one, false), (&two, true)] {
        let failing = Order {
            tell,
            fail: true,
            ..order(helper, 2)
        };
        assert!(foreman.call::<i64>("Order", failing).is_err());
    }
    let told = Order {
        tell: true,
        ..order(&two, 5)
    };
    assert_eq!(foreman.call("Order", told), Ok(0));
    host.deliver();
    for method in ["Share", "Try"] {
        let asked = Order {
            method: method.to_string(),
            ..order(&one, 0)
        };
        assert_eq!(foreman.call("Order", asked), Ok(0), "{method}");
    }
    assert_eq!(host.actor_named("Helper", &one).get("sum"), Ok(Some(3)));
    assert_eq!(add(&foreman, &two, 5), Ok(12));
    host.deliver();
    assert_eq!(foreman.get("done"), Ok(Some(vec![12])));
    let outside = host.actor_named("Helper", &one).call::<i64>("Add", 1);
    assert_eq!(outside.unwrap_err().code(), PASSED_AWAY);
    let other = host.actor_named("Foreman", "g");
    assert_eq!(add(&other, &one, 1).unwrap_err().code(), PASSED_AWAY);
    let told = Order {
        tell: true,
        ..order(&one, 5)
    };
    assert!(other.call::<i64>("Order", told).is_err());
}

/// Children end with their parent's presence in memory, and by themselves.
#[test]
fn children_end() {
    type End = fn(&ActorRef, &str);
    let ends: [(&str, End); 6] = [
        ("deactivated", |f, _| f.deactivate()),
        ("moved", |f, _| f.move_away()),
        ("deleted", |f, _| f.delete()),
        ("passed away", |f, _| f.call("Go", ()).unwrap()),
        ("left", |f, _| f.leave().unwrap()),
        ("itself", |f, helper| {
            let pass = Order {
                method: "Pass".to_string(),
                ..order(helper, 0)
            };
            f.call::<i64>("Order", pass).map(drop).unwrap();
        }),
    ];
    for (how, end) in ends {
        let host = host();
        let foreman = host.actor_named("Foreman", "f");
        let helper: String = foreman.call("Hire", false).unwrap();
        end(&foreman, &helper);
        let called = add(&foreman, &helper, 1);
        assert_eq!(called.unwrap_err().code(), PASSED_AWAY, "{how}");
        host.deliver(); // what was told before
        if how != "deleted" {
            let back = Ok(Some(vec![PASSED_AWAY.to_string()]));
            assert_eq!(foreman.get("back"), back, "{how}");
        }
        let helper = host.actor_named("Helper", &helper);
        assert!(helper.keys().is_empty(), "{how}");
        host.advance(Duration::from_secs(1));
    }
}

/// 64 children of a turn, 100 of an actor, and none of types that no host keeps in memory.
#[test]
fn children_are_bounded() {
    let host = host();
    let foreman = host.actor_named("Foreman", "f");
    for made in [64, 36, 0] {
        assert_eq!(foreman.call::<u32>("HireMany", 80_u32), Ok(made));
    }
    for of in ["Missing", "Nomad"] {
        let e = foreman.call::<String>("HireWrong", of.to_string());
        assert_eq!(e.unwrap_err().code(), "invalid_type", "{of}");
    }
    let nomad = host.actor_named("Nomad", "n");
    let e = nomad.call::<String>("HireWrong", "Helper".to_string());
    assert_eq!(e.unwrap_err().code(), "no_state");
}
