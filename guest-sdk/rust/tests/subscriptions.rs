//! Actors that subscribe to the events of others, as the test kit delivers them.

use greenroom::event::{INVALID_EVENT, INVALID_SUBSCRIPTION, PASSED_AWAY};
use greenroom::life::LIFE_OVER;
use greenroom::testing::Host;
use greenroom::{Context, Error, ReadContext, Ref};
use std::time::{Duration, UNIX_EPOCH};

greenroom::record! {
    /// Publishes each text that it is called with.
    #[derive(Debug, Default)]
    pub struct Herald {}

    /// Keeps the texts that it receives.
    #[derive(Debug, Default)]
    pub struct Listener {
        heard: Vec<String>,
        attempts: Vec<u32>,
    }

    #[derive(Debug, Default)]
    pub struct Passerby {}
}

impl Herald {
    fn say(&self, ctx: &Context, text: String) -> Result<(), Error> {
        ctx.publish("said", text)
    }

    fn say_as(&self, ctx: &Context, name: String) -> Result<(), Error> {
        ctx.publish(&name, 1)
    }

    /// Says a last text, if there is one, and ends the herald's life.
    fn end(&mut self, ctx: &Context, text: Option<String>) -> Result<(), Error> {
        if let Some(text) = text {
            ctx.publish("said", text)?;
        }
        ctx.pass_away()
    }
}

fn herald(id: &str) -> Ref {
    Ref::of::<Herald>(id)
}

impl Listener {
    fn follow(&mut self, ctx: &Context, id: String) -> Result<(), Error> {
        ctx.subscribe(&herald(&id), "Hear")
    }

    /// Subscribes with a method that takes texts alone.
    fn follow_plainly(&mut self, ctx: &Context, id: String) -> Result<(), Error> {
        ctx.subscribe(&herald(&id), "HearPlainly")
    }

    fn hear_plainly(&mut self, _: &Context, text: String) -> Result<(), Error> {
        self.heard.push(text);
        Ok(())
    }

    fn follow_other(&mut self, ctx: &Context, of: String) -> Result<(), Error> {
        ctx.subscribe(&Ref::new(of, "x"), "Hear")
    }

    fn mute(&mut self, ctx: &Context, id: String) -> Result<(), Error> {
        ctx.subscribe(&herald(&id), "Ignore")
    }

    fn leave(&mut self, ctx: &Context, id: String) -> Result<bool, Error> {
        ctx.unsubscribe(&herald(&id))
    }

    fn fail(&mut self, ctx: &Context, id: String) -> Result<(), Error> {
        ctx.subscribe(&herald(&id), "Hear")?;
        ctx.unsubscribe(&herald("a"))?;
        Err(Error::failed_precondition("told_to", "as it was told"))
    }

    /// Has a called turn subscribe, which fails.
    fn delegate(&mut self, ctx: &Context, id: String) -> Result<(), Error> {
        let other = Ref::of::<Listener>("other");
        let failed = other.message("Fail", &id).call::<()>(ctx, self);
        assert!(failed.is_err());
        Ok(())
    }

    fn hear(&mut self, ctx: &Context, text: Option<String>) -> Result<(), Error> {
        let c = ctx.cause();
        let from = c.from.unwrap();
        let text = match text {
            Some(text) => text,
            None => {
                assert_eq!((c.failed.as_str(), c.name.as_str()), (PASSED_AWAY, ""));
                if c.attempt < 2 {
                    return Err(Error::failed_precondition("not_yet", "not at this attempt"));
                }
                self.heard.push(format!("{:?} of {from} ended", c.kind));
                return Ok(());
            }
        };
        if text == "hard" && c.attempt < 3 {
            return Err(Error::failed_precondition("not_yet", "not at this attempt"));
        }
        let at = c.due.duration_since(UNIX_EPOCH).unwrap().as_secs() % 60;
        self.heard
            .push(format!("{:?} {} of {from} at {at}: {text}", c.kind, c.name));
        self.attempts.push(c.attempt);
        match text.as_str() {
            "enough" => assert!(ctx.unsubscribe(&from)?),
            "follow" => {
                // What this turn publishes comes after the subscription began.
                assert!(ctx.unsubscribe(&from)?);
                ctx.subscribe(&from, "Hear")?;
            }
            "echo" => ctx.publish("said", "echo of ".to_string() + &from.id)?,
            _ => {}
        }
        Ok(())
    }

    fn ignore(&mut self, _: &Context) -> Result<(), Error> {
        self.attempts.push(0);
        Ok(())
    }

    fn listen_to_itself(&self, ctx: &Context) -> Result<(), Error> {
        ctx.subscribe(&Ref::of::<Listener>(ctx.id()), "Hear")?;
        ctx.publish("said", "hm")
    }

    fn end(&mut self, ctx: &Context) -> Result<(), Error> {
        ctx.subscribe(&herald("last"), "Hear")?;
        ctx.pass_away()?;
        let refused = ctx.subscribe(&herald("late"), "Hear").unwrap_err();
        assert_eq!(refused.code(), LIFE_OVER);
        Ok(())
    }

    fn look(&self, _: &ReadContext) -> Result<Vec<String>, Error> {
        Ok(self.heard.clone())
    }

    fn wrong(&self, ctx: &Context, method: String) -> Result<(), Error> {
        match method.as_str() {
            "service" => ctx.subscribe(&Ref::service("herald"), "Hear"),
            "no service" => ctx.unsubscribe(&Ref::service("herald")).map(drop),
            method => ctx.subscribe(&herald("a"), method),
        }
    }
}

/// Follows without a state of its own.
impl Passerby {
    fn follow(&self, ctx: &Context, id: String) -> Result<(), Error> {
        ctx.subscribe(&herald(&id), "Follow")
    }
}

greenroom::actors! {
    Herald {
        methods: { "Say" => say, "SayAs" => say_as, "End" => end },
    }
    Listener {
        methods: {
            "Follow" => follow,
            "FollowOther" => follow_other,
            "FollowPlainly" => follow_plainly,
            "HearPlainly" => private hear_plainly,
            "Mute" => mute,
            "Leave" => leave,
            "Fail" => fail,
            "Delegate" => delegate,
            "Hear" => private hear,
            "Ignore" => private ignore,
            "ListenToItself" => listen_to_itself,
            "End" => end,
            "Look" => read_only look,
            "Wrong" => wrong,
        },
    }
    Passerby {
        placement: stateless,
        methods: { "Follow" => follow },
    }
}

fn host() -> Host {
    Host::of(&GREENROOM_MODULE)
}

fn say(host: &Host, id: &str, text: &str) {
    host.actor_named("Herald", id)
        .call::<()>("Say", text)
        .unwrap();
}

fn listener(host: &Host, method: &str, id: &str) {
    host.actor_named("Listener", "l")
        .call::<()>(method, id)
        .unwrap();
}

fn heard(host: &Host) -> Vec<String> {
    let l = host.actor_named("Listener", "l");
    l.query("Look", ()).unwrap()
}

/// The subscriptions of an actor, and the failed deliveries of their next events.
fn followed(host: &Host) -> Vec<(String, String, u32)> {
    let all = host.subscriptions().into_iter();
    all.filter(|s| s.by.id == "l")
        .map(|s| (s.to.id, s.method, s.failures))
        .collect()
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn a_subscriber_hears_what_comes_after_it_began() {
    let host = host();
    say(&host, "a", "before");
    for id in ["a", "b", "a"] {
        listener(&host, "Follow", id);
    }
    let hear = "Hear".to_string();
    assert_eq!(
        followed(&host),
        [("a".into(), hear.clone(), 0), ("b".into(), hear, 0)]
    );
    say(&host, "a", "one");
    say(&host, "c", "unheard");
    say(&host, "b", "two");
    say(&host, "a", "three");
    assert_eq!((host.deliver(), host.deliver()), (3, 0));
    let want = [
        "Event said of Herald||a at 0: one",
        "Event said of Herald||a at 0: three",
        "Event said of Herald||b at 0: two",
    ];
    assert_eq!(heard(&host), want);
    host.advance(secs(60));
    assert_eq!(heard(&host), want);
}

#[test]
fn later_events_wait_for_one_that_fails() {
    let host = host();
    listener(&host, "Follow", "a");
    listener(&host, "Follow", "b");
    host.advance(secs(5));
    for text in ["one", "hard", "two"] {
        say(&host, "a", text);
    }
    say(&host, "b", "other");
    assert_eq!(host.deliver(), 3);
    let mut want = vec![
        "Event said of Herald||a at 5: one".to_string(),
        "Event said of Herald||b at 5: other".to_string(),
    ];
    assert_eq!((heard(&host), followed(&host)[0].2), (want.clone(), 1));
    host.advance(Duration::from_millis(999));
    assert_eq!(followed(&host)[0].2, 1);
    host.advance(Duration::from_millis(1)); // after one second, and then after two more
    assert_eq!((heard(&host), followed(&host)[0].2), (want.clone(), 2));
    host.advance(Duration::from_millis(1999));
    assert_eq!(heard(&host), want);
    host.advance(Duration::from_millis(1));
    want.push("Event said of Herald||a at 5: hard".to_string());
    want.push("Event said of Herald||a at 5: two".to_string());
    assert_eq!((heard(&host), followed(&host)[0].2), (want, 0));
    let attempts: Vec<u32> = host
        .actor_named("Listener", "l")
        .get("attempts")
        .unwrap()
        .unwrap();
    assert_eq!(attempts, [1, 1, 3, 1]);
}

#[test]
fn subscriptions_end_with_an_event_too() {
    let host = host();
    listener(&host, "Follow", "a");
    listener(&host, "Follow", "b");
    for text in ["enough", "more"] {
        say(&host, "a", text);
    }
    for text in ["follow", "missed"] {
        say(&host, "b", text);
    }
    assert_eq!(host.deliver(), 2);
    say(&host, "b", "again");
    assert_eq!(host.deliver(), 1);
    let want = [
        "Event said of Herald||a at 0: enough",
        "Event said of Herald||b at 0: follow",
        "Event said of Herald||b at 0: again",
    ];
    assert_eq!(heard(&host), want);
    say(&host, "b", "undelivered");
    let l = host.actor_named("Listener", "l");
    assert_eq!(l.call("Leave", "b"), Ok(true));
    assert_eq!(l.call("Leave", "b"), Ok(false));
    assert_eq!((host.deliver(), followed(&host).len()), (0, 0));
}

#[test]
fn a_subscription_is_part_of_its_turn() {
    let host = host();
    listener(&host, "Follow", "a");
    let l = host.actor_named("Listener", "l");
    assert!(l.call::<()>("Fail", "b").is_err());
    listener(&host, "Delegate", "c");
    say(&host, "b", "unheard");
    say(&host, "c", "unheard");
    say(&host, "a", "heard");
    assert_eq!((host.deliver(), host.subscriptions().len()), (1, 1));
    assert_eq!(heard(&host), ["Event said of Herald||a at 0: heard"]);
}

#[test]
fn subscribing_again_changes_the_method_alone() {
    let host = host();
    listener(&host, "Follow", "a");
    say(&host, "a", "one");
    listener(&host, "Mute", "a");
    assert_eq!(host.deliver(), 1);
    assert_eq!(heard(&host), [""; 0]);
    assert_eq!(followed(&host), [("a".into(), "Ignore".into(), 0)]);
}

#[test]
fn actors_follow_each_other_and_themselves() {
    let host = host();
    host.actor_named("Listener", "l")
        .call::<()>("ListenToItself", ())
        .unwrap();
    assert_eq!(host.deliver(), 1);
    assert_eq!(heard(&host), ["Event said of Listener||l at 0: hm"]);
    listener(&host, "Follow", "a");
    say(&host, "a", "echo");
    assert_eq!(host.deliver(), 2); // the event, and what its turn publishes
    assert_eq!(
        heard(&host)[1..],
        [
            "Event said of Herald||a at 0: echo",
            "Event said of Listener||l at 0: echo of a"
        ]
    );
}

#[test]
fn subscriptions_end_with_a_life_and_an_actor() {
    let host = host();
    listener(&host, "Follow", "a");
    host.actor_named("Listener", "l")
        .call::<()>("End", ())
        .unwrap();
    assert_eq!(host.subscriptions(), []);
    listener(&host, "Follow", "a");
    host.actor_named("Listener", "l").delete();
    say(&host, "a", "unheard");
    assert_eq!((host.deliver(), host.subscriptions().len()), (0, 0));
}

#[cfg(feature = "macros")]
mod sets {
    use greenroom::testing::Host;
    use greenroom::{Context, Error, Ref};

    greenroom::record! {
        #[derive(Debug, Default)]
        pub struct Monk { heard: Vec<String> }
    }

    #[greenroom::actor]
    impl Monk {
        #[method(in = "attentive")]
        fn hear(&mut self, _: &Context, text: String) -> Result<(), Error> {
            self.heard.push(text);
            Ok(())
        }

        #[method(in = "attentive", in = "silent")]
        fn retreat(&mut self, ctx: &Context) -> Result<(), Error> {
            ctx.subscribe(&Ref::new("Herald", "a"), "Hear")?;
            ctx.become_("silent")
        }
    }

    #[test]
    fn a_method_set_restricts_no_event() {
        let host = Host::of(&super::GREENROOM_MODULE);
        let monk = host.actor::<Monk>("m");
        monk.call::<()>("Retreat", ()).unwrap();
        assert!(monk.call::<()>("Hear", "a call").is_err());
        super::say(&host, "a", "an event");
        host.deliver();
        assert_eq!(monk.get("heard"), Ok(Some(vec!["an event".to_string()])));
    }
}

#[test]
fn subscriptions_that_cannot_be() {
    let host = host();
    let l = host.actor_named("Listener", "l");
    for (what, want) in [
        ("", "has no method \"\""),
        ("Missing", "has no method \"Missing\""),
        ("Look", "read-only; a subscription runs one that"),
        (
            "service",
            "subscribe to service||herald: a subscription needs the type and the ID",
        ),
        (
            "no service",
            "unsubscribe from service||herald: a subscription needs the type and the ID",
        ),
    ] {
        let error = l.call::<()>("Wrong", what).unwrap_err();
        assert_eq!(error.code(), INVALID_SUBSCRIPTION);
        assert!(error.message().contains(want), "{error}");
    }
    let stateless = host.actor_named("Passerby", "p");
    let error = stateless.call::<()>("Follow", "a").unwrap_err();
    assert_eq!(error.code(), "no_state");
    for i in 0..100 {
        listener(&host, "Follow", &i.to_string());
    }
    let error = l.call::<()>("Follow", "x").unwrap_err();
    assert_eq!(error.code(), "too_many");
    listener(&host, "Mute", "7");
    assert_eq!(l.call("Leave", "7"), Ok(true));
    listener(&host, "Follow", "x");
}

#[test]
fn nobody_to_subscribe_to() {
    let host = host();
    let follow = |of: &str| {
        let l = host.actor_named("Listener", "l");
        l.call::<()>("FollowOther", of)
    };
    for (of, says) in [
        ("Heralt", "no actor type \"Heralt\""),
        ("Passerby", "publish no events"),
    ] {
        let refused = follow(of).unwrap_err();
        assert_eq!(refused.code(), INVALID_SUBSCRIPTION);
        assert!(refused.message().contains(says), "{refused}");
    }
    assert!(followed(&host).is_empty());
    follow("Herald").unwrap();
    assert_eq!(followed(&host).len(), 1);
}

#[test]
fn the_ends_of_publishers_are_heard_once_and_in_order() {
    let host = host();
    let end = |id: &str, text: Option<&str>| {
        let h = host.actor_named("Herald", id);
        h.call::<()>("End", text).unwrap();
    };
    for id in ["a", "silent"] {
        listener(&host, "Follow", id);
    }
    end("silent", None);
    say(&host, "a", "one");
    end("a", Some("last"));
    say(&host, "a", "again");
    end("a", None);
    host.deliver();
    host.advance(secs(2));
    let ended = "Event of Herald||a ended";
    let want = [
        "Event said of Herald||a at 0: one",
        "Event said of Herald||a at 0: last",
        ended,
        "Event said of Herald||a at 0: again",
        ended,
    ];
    assert_eq!(heard(&host), want);
    let plain = host.actor_named("Listener", "plain");
    plain.call::<()>("FollowPlainly", "a").unwrap();
    say(&host, "a", "one");
    end("a", None);
    say(&host, "a", "two");
    host.deliver();
    let heard: Vec<String> = plain.query("Look", ()).unwrap();
    assert_eq!(heard, ["one", "two"]);
    assert_eq!(host.events("Herald", "a").len(), 5);
    assert_eq!(followed(&host).len(), 2);
    let named = host.actor_named("Herald", "a");
    let refused = named.call::<()>("SayAs", "greenroom.x").unwrap_err();
    assert_eq!(refused.code(), INVALID_EVENT);
}
