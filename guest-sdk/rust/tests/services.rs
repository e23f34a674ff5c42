//! Actors that watch services, as the test kit delivers the lists.

use greenroom::life::LIFE_OVER;
use greenroom::testing::Host;
use greenroom::watch::{Services, INVALID_WATCH};
use greenroom::{Context, Error};

greenroom::record! {
    #[derive(Debug, Default)]
    pub struct Board {
        seen: Vec<String>,
    }
}

impl Board {
    fn watch(&mut self, ctx: &Context, name: String) -> Result<(), Error> {
        ctx.watch_service(&name, "See")
    }

    fn unwatch(&mut self, ctx: &Context, name: String) -> Result<bool, Error> {
        ctx.unwatch_service(&name)
    }

    fn see(&mut self, ctx: &Context, now: Services) -> Result<(), Error> {
        let c = ctx.cause();
        let mut text = format!("{:?} {} {:?}:", c.kind, c.name, c.from);
        for n in now.services.iter().take(3) {
            text += &format!(" {}={}", n.name, n.actor());
        }
        if now.more {
            text += &format!(" of {} and more", now.services.len());
        }
        text += &c.failed;
        self.seen.push(text);
        Ok(())
    }

    fn claim(&mut self, ctx: &Context, names: Vec<String>) -> Result<(), Error> {
        names.iter().try_for_each(|name| ctx.claim(name))
    }

    fn release(&mut self, ctx: &Context, name: String) -> Result<bool, Error> {
        ctx.release(&name)
    }

    fn watch_own(&mut self, ctx: &Context, name: String) -> Result<(), Error> {
        ctx.watch_service(&name, "See")?;
        ctx.claim(&name)
    }

    fn watch_and_fail(&mut self, ctx: &Context, name: String) -> Result<(), Error> {
        self.watch_own(ctx, name)?;
        Err(Error::failed_precondition("no", "no"))
    }

    fn end(&mut self, ctx: &Context) -> Result<(), Error> {
        ctx.pass_away()?;
        let error = ctx.watch_service("mailer", "See").unwrap_err();
        assert_eq!(error.code(), LIFE_OVER);
        Ok(())
    }

    fn wrong(&mut self, ctx: &Context, method: String) -> Result<(), Error> {
        ctx.watch_service("mailer", &method)
    }
}

greenroom::actors! {
    Board {
        methods: {
            "Watch" => watch,
            "Unwatch" => unwatch,
            "See" => private see,
            "Claim" => claim,
            "Release" => release,
            "WatchOwn" => watch_own,
            "WatchAndFail" => watch_and_fail,
            "End" => end,
            "Wrong" => wrong,
        },
    }
}

fn host() -> Host {
    Host::of(&GREENROOM_MODULE)
}

fn do_(host: &Host, id: &str, method: &str, input: impl greenroom::Output) {
    let board = host.actor_named("Board", id);
    board.call::<()>(method, input).unwrap();
}

fn claim(host: &Host, id: &str, names: &[&str]) {
    let names: Vec<String> = names.iter().map(|n| n.to_string()).collect();
    do_(host, id, "Claim", names);
}

/// All that the board b has learned; it forgets what it has learned so far.
fn seen(host: &Host) -> Vec<String> {
    host.deliver();
    let board = host.actor_named("Board", "b");
    let seen: Option<Vec<String>> = board.get("seen").unwrap();
    board.set_state(0, "{}");
    seen.unwrap_or_default()
}

#[test]
fn a_group_is_watched() {
    let host = host();
    do_(&host, "b", "Watch", "work/".to_string());
    assert_eq!(seen(&host), ["Services work/ None:"]);
    claim(&host, "x", &["work/2", "work/1", "worker"]);
    claim(&host, "y", &["work/10"]);
    let all = "Services work/ None: work/1=Board||x work/10=Board||y work/2=Board||x";
    assert_eq!(seen(&host), [all]);
    let released = host.actor_named("Board", "x").call("Release", "work/2");
    assert_eq!(released, Ok(true));
    do_(&host, "y", "End", ());
    assert_eq!(seen(&host), ["Services work/ None: work/1=Board||x"]);
    host.actor_named("Board", "x").delete();
    assert_eq!(seen(&host), ["Services work/ None:"]);
    let watched = host.actor_named("Board", "b").call("Unwatch", "work/");
    assert_eq!(watched, Ok(true));
    claim(&host, "x", &["work/1"]);
    assert!(seen(&host).is_empty());
}

#[test]
fn one_service_is_watched() {
    let host = host();
    let board = host.actor_named("Board", "b");
    assert!(board.call::<()>("WatchAndFail", "mailer").is_err());
    claim(&host, "x", &["mailer/2"]);
    do_(&host, "b", "WatchOwn", "mailer");
    do_(&host, "b", "Watch", "mailer");
    let own = "Services mailer None: mailer=Board||b";
    assert_eq!(seen(&host), [own]);
    do_(&host, "b", "Watch", "mailer"); // again
    assert!(seen(&host).is_empty());
    assert_eq!(board.call("Unwatch", "mailer"), Ok(true));
    do_(&host, "b", "Watch", "mailer");
    assert_eq!(seen(&host), [own]);
    assert_eq!(board.call("Release", "mailer"), Ok(true));
    board.move_away();
    assert_eq!(seen(&host), ["Services mailer None:moved"]);
    claim(&host, "b", &["mailer"]);
    assert!(seen(&host).is_empty());
    do_(&host, "b", "Watch", "mailer");
    assert_eq!(seen(&host), [own]);
    do_(&host, "b", "End", ());
    claim(&host, "x", &["mailer"]);
    assert!(seen(&host).is_empty());
}

#[test]
fn what_cannot_be_watched() {
    let host = host();
    let board = host.actor_named("Board", "b");
    for (method, want) in [
        ("", "names no method"),
        ("Missing", "no method \"Missing\""),
    ] {
        let error = board.call::<()>("Wrong", method).unwrap_err();
        assert_eq!(error.code(), INVALID_WATCH);
        assert!(error.message().contains(want), "{error}");
    }
    for name in ["".to_string(), "\0".to_string(), "x".repeat(257)] {
        let error = board.call::<()>("Watch", name).unwrap_err();
        assert_eq!(error.code(), INVALID_WATCH);
    }
    for i in 0..100 {
        do_(&host, "b", "Watch", i.to_string());
    }
    let error = board.call::<()>("Watch", "x").unwrap_err();
    assert_eq!(error.code(), "too_many");
}

#[test]
fn a_large_group_is_cut() {
    let host = host();
    let names: Vec<String> = (0..257).map(|i| format!("work/{i:03}")).collect();
    do_(&host, "x", "Claim", names);
    do_(&host, "b", "Watch", "work/");
    let seen = seen(&host);
    assert!(seen[0].ends_with("work/002=Board||x of 256 and more"));
}
