//! `#[greenroom::actor]` says what `actors!` says.

#![cfg(feature = "macros")]

use cart::CartRef;
use greenroom::prelude::*;
use greenroom::spec::{Instance, Placement, Pool};
use greenroom::testing::Host;
use greenroom::Actor;
use std::time::Duration;

mod cart {
    use greenroom::prelude::*;

    greenroom::record! {
        #[derive(Default)]
        pub struct Cart { total: u32 }
    }

    const SCHEMA: u32 = 2;

    #[greenroom::actor(
        name = "shop.Cart",
        reference = pub CartRef,
        placement = sticky,
        co_locate(group = "orders", separator = "/", parts = 2),
        instance = shared,
        pool = batch,
        state_schema = SCHEMA,
        reentrant,
        limits(state_bytes = 64 << 10, turn_ms = 500),
        hooks(created = "Expire", leaving = "Empty"),
        messages(attempts = 5, age_ms = 60_000),
        events(count = 100),
        capabilities(http = ["api.example.com", "*"], secrets = ["key"]),
    )]
    impl Cart {
        /// No method, since it has no `self`.
        pub fn first() -> u32 {
            7
        }

        fn add_lines(&mut self, ctx: &Context, count: u32) -> Result<u32, Error> {
            ensure!(
                count > 0,
                Error::invalid_argument("bad_count", ctx.method())
            );
            self.total += count;
            Ok(self.total)
        }

        #[method(idempotent, reentrant, name = "Empty")]
        fn empty_all(&mut self, ctx: &Context) -> Result<u32, Error> {
            ctx.state().delete_all(self)
        }

        #[method(private, atomic, in = "open", in = "ajar")]
        fn expire(&mut self, _: &Context) -> Result<(), Error> {
            self.total = 0;
            Ok(())
        }

        fn total(&self, _: &ReadContext) -> Result<u32, Error> {
            Ok(self.total)
        }

        #[method(read_only)]
        fn r#type(&self, ctx: &ReadContext) -> Result<String, Error> {
            Ok(ctx.key().actor_type.clone())
        }

        #[cfg(any())]
        fn total(&self, _: &ReadContext) -> Result<(), Error> {}

        #[migrate]
        fn from_older(ctx: &Context, from: u32) -> Result<(), Error> {
            ctx.state().set("total", &(from + Cart::first()))
        }
    }
}

greenroom::record! {
    #[derive(Default)]
    pub struct Plain { n: i64 }
}

#[greenroom::actor]
impl Plain {
    fn get(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.n)
    }

    fn fill(&mut self, ctx: &Context, count: u32) -> Result<i64, Error> {
        let cart = CartRef::new("c");
        let call = cart.add_lines(count).timeout(Duration::from_secs(1));
        self.n += i64::from(call.atomic().call(ctx, self)?);
        cart.expire().call(ctx, self)?;
        Ok(self.n)
    }

    fn peek(&self, ctx: &ReadContext) -> Result<String, Error> {
        CartRef::new("c").r#type().query(ctx)
    }
}

greenroom::record! {
    #[derive(Default)]
    pub struct Spawned {}
}

#[greenroom::actor(spawn_only)]
impl Spawned {
    fn touch(&mut self, _: &Context) -> Result<(), Error> {
        Ok(())
    }
}

greenroom::module! { cart::Cart, Plain, Spawned }

#[test]
fn the_attribute_says_what_the_macro_says() {
    let spec = cart::Cart::SPEC;
    assert_eq!(spec.name, "shop.Cart");
    assert_eq!(spec.placement, Placement::Sticky);
    assert_eq!(
        (
            spec.co_locate.group,
            spec.co_locate.separator,
            spec.co_locate.parts
        ),
        ("orders", "/", 2)
    );
    assert_eq!(spec.instance, Some(Instance::Shared));
    assert_eq!(spec.pool, Pool::Batch);
    assert_eq!(
        (spec.state_schema, spec.migrate, spec.reentrant),
        (2, true, true)
    );
    assert_eq!((spec.limits.state_bytes, spec.limits.turn_ms), (65536, 500));
    assert_eq!(spec.capabilities.http, ["api.example.com", "*"]);
    assert_eq!(spec.capabilities.secrets, ["key"]);
    let methods: Vec<_> = spec
        .methods
        .iter()
        .map(|m| (m.name, m.read_only, m.idempotent, m.reentrant, m.private))
        .collect();
    assert_eq!(
        methods,
        [
            ("AddLines", false, false, false, false),
            ("Empty", false, true, true, false),
            ("Expire", false, false, false, true),
            ("Total", true, false, false, false),
            ("Type", true, false, false, false),
        ]
    );
    let manifest = GREENROOM_MODULE.manifest();
    assert!(manifest.contains(r#"{"name":"Plain","#));
    let expire = r#"{"name":"Expire","private":true,"atomic":"required","sets":["open","ajar"]}"#;
    assert!(manifest.contains(expire), "{manifest}");
    let life = r#""hooks":{"created":"Expire","leaving":"Empty"},"messages":{"attempts":5,"age_ms":60000},"events":{"count":100}}"#;
    assert!(manifest.contains(life), "{manifest}");
    assert!(manifest.contains(r#"{"name":"Touch"}],"spawn":"only"}"#));
}

#[test]
fn methods_run() {
    let host = Host::of(&GREENROOM_MODULE);
    let cart = host.actor_named("shop.Cart", "c");
    assert_eq!(cart.call("AddLines", 2), Ok(2u32));
    let refused = cart.call::<u32>("AddLines", 0).unwrap_err();
    assert_eq!(refused.to_string(), "bad_count: AddLines");
    assert_eq!(cart.query("Total", ()), Ok(2u32));
    assert_eq!(cart.query("Type", ()), Ok("shop.Cart".to_string()));
    assert_eq!(cart.call("Empty", ()), Ok(1u32));
    cart.set_state(1, "{}");
    assert_eq!(cart.query("Total", ()), Ok(8u32));
    assert_eq!(host.actor_named("Plain", "p").query("Get", ()), Ok(0i64));
}

#[test]
fn a_reference_calls_methods_with_their_types() {
    let host = Host::of(&GREENROOM_MODULE);
    let plain = host.actor::<Plain>("p");
    assert_eq!(plain.call("Fill", 3), Ok(3i64));
    assert_eq!(plain.call("Fill", 4), Ok(7i64)); // it expired
    assert_eq!(plain.query("Peek", ()), Ok("shop.Cart".to_string()));
    assert_eq!(CartRef::new("c"), CartRef::new("c".to_string()));
}
