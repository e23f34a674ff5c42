//! What the test kit does for tests: several types by name, and the rules of a host
//! that plain Rust would let a test break.

use greenroom::prelude::*;
use greenroom::testing::{ActorRef, Host};
#[cfg(not(feature = "serde"))]
use greenroom::{FromJson, ToJson};
use std::cell::Cell;

mod shelf {
    use greenroom::prelude::*;

    greenroom::record! {
        #[derive(Default)]
        pub struct Shelf { books: u32 }
    }

    impl Shelf {
        pub(crate) fn put(&mut self, ctx: &Context, title: String) -> Result<u32, Error> {
            let id = ctx.id(); // lent by the context that the state is then taken from
            ctx.state().set("owner", id)?;
            ctx.state().set(&format!("book/{title}"), &title.len())?;
            self.books += 1;
            Ok(self.books)
        }

        pub(crate) fn titles(&self, ctx: &ReadContext) -> Result<Vec<String>, Error> {
            let titles = ctx.state().each::<usize>("book/").map(|entry| {
                let (key, length) = entry?;
                Ok(format!("{key} {length}"))
            });
            titles.collect()
        }

        /// Removes the books while it goes through them.
        pub(crate) fn empty(&mut self, ctx: &Context) -> Result<u32, Error> {
            let mut seen = 0;
            for entry in ctx.state().each::<usize>("book/") {
                entry?;
                seen += 1;
                ctx.state().delete("book/c")?;
            }
            Ok(seen)
        }
    }
}

greenroom::record! {
    #[derive(Default)]
    pub struct Peeker {
        seen: Seen,
        label: String,
    }
}

/// A number that a shared reference can change.
#[derive(Default)]
pub struct Seen(Cell<u32>);

#[cfg(feature = "serde")]
impl serde::Serialize for Seen {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.0.get().serialize(s)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Seen {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Seen, D::Error> {
        u32::deserialize(d).map(|n| Seen(Cell::new(n)))
    }
}

#[cfg(not(feature = "serde"))]
impl ToJson for Seen {
    fn to_json(&self) -> Result<Vec<u8>, Error> {
        self.0.get().to_json()
    }
}

#[cfg(not(feature = "serde"))]
impl FromJson for Seen {
    fn from_json(text: &[u8]) -> Result<Seen, Error> {
        u32::from_json(text).map(|n| Seen(Cell::new(n)))
    }
}

impl Peeker {
    fn look(&self, _: &ReadContext) -> Result<u32, Error> {
        self.seen.0.set(self.seen.0.get() + 1);
        Ok(self.seen.0.get())
    }

    fn seen(&self, _: &ReadContext) -> Result<u32, Error> {
        Ok(self.seen.0.get())
    }

    fn label(&mut self, _: &Context, label: String) -> Result<u32, Error> {
        self.label = label;
        Ok(self.seen.0.get())
    }
}

greenroom::actors! {
    shelf::Shelf {
        methods: { "Put" => put, "Titles" => titles, "Empty" => empty },
    }
    Peeker as "shop.Peeker" {
        methods: { "Look" => look, "Seen" => read_only seen, "Label" => label },
    }
}

#[test]
fn types_are_known_by_name_and_play_together() {
    let host = Host::of(&GREENROOM_MODULE);
    let shelf = host.actor_named("Shelf", "s");
    assert_eq!(shelf.call("Put", "a".to_string()), Ok(1u32));
    let peeker: ActorRef = host.actor_named("shop.Peeker", "s");
    assert_eq!(peeker.call("Label", "l".to_string()), Ok(0u32));
    assert_eq!(shelf.call("Put", "b".to_string()), Ok(2u32));
    // By name and by type it is the same actor.
    let typed = host.actor::<shelf::Shelf>("s");
    assert_eq!(typed.key(), shelf.key());
    assert_eq!(typed.get("owner"), Ok(Some("s".to_string())));
    let unknown = std::panic::catch_unwind(|| {
        let _ = Host::new().actor_named("Shelf", "s");
    });
    let message = unknown.unwrap_err().downcast::<String>().unwrap();
    assert!(
        message.contains("no actor type \"Shelf\" here"),
        "{message}"
    );
}

#[test]
fn a_method_is_read_only_by_its_types() {
    let host = Host::of(&GREENROOM_MODULE);
    let shelf = host.actor_named("Shelf", "s");
    assert_eq!(shelf.query("Titles", ()), Ok(Vec::<String>::new()));
    let put = shelf.query::<u32>("Put", "a".to_string());
    assert_eq!(put.unwrap_err().code(), "not_read_only");
}

#[test]
fn keys_are_gone_through_in_order_and_may_go() {
    let shelf = Host::new().actor::<shelf::Shelf>("s");
    for title in ["ccc", "a", "bb", "c"] {
        shelf.call::<u32>("Put", title.to_string()).unwrap();
    }
    let titles = shelf.query("Titles", ());
    let want = ["book/a 1", "book/bb 2", "book/c 1", "book/ccc 3"];
    assert_eq!(titles, Ok(want.map(String::from).to_vec()));
    assert_eq!(shelf.call("Empty", ()), Ok(3u32)); // not the one that was deleted
    shelf.set_state(0, r#"{"book/a":1,"book/b":"x"}"#);
    let error = shelf.query::<Vec<String>>("Titles", ()).unwrap_err();
    assert_eq!(error.code(), "bad_json");
    assert!(error.message().contains("\"book/b\""), "{error}");
}

#[test]
fn a_read_only_method_that_changes_the_struct_fails() {
    let host = Host::new();
    let peeker = host.actor::<Peeker>("p");
    let error = peeker.query::<u32>("Look", ()).unwrap_err();
    assert_eq!(error.code(), "read_only");
    assert_eq!(
        error.message(),
        "shop.Peeker.Look is read-only and changed the field \"seen\"; \
         take &mut self and &Context to change the actor"
    );
    assert_eq!(peeker.query("Seen", ()), Ok(0u32));
    assert_eq!(peeker.call("Label", "l".to_string()), Ok(0u32));
    assert_eq!(peeker.keys(), ["label"]);
}

mod memo {
    use greenroom::prelude::*;
    #[cfg(not(feature = "serde"))]
    use greenroom::{FromJson, ToJson};
    use std::cell::Cell;

    #[derive(Default)]
    pub struct Memo {
        noted: Cell<u32>, // no part of the state
    }
    #[cfg(feature = "serde")]
    impl serde::Serialize for Memo {
        fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            std::collections::BTreeMap::<String, u8>::new().serialize(s)
        }
    }
    #[cfg(feature = "serde")]
    impl<'de> serde::Deserialize<'de> for Memo {
        fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Memo, D::Error> {
            serde::de::IgnoredAny::deserialize(d).map(|_| Memo::default())
        }
    }
    #[cfg(not(feature = "serde"))]
    impl ToJson for Memo {
        fn to_json(&self) -> Result<Vec<u8>, Error> {
            Ok(b"{}".to_vec())
        }
    }
    #[cfg(not(feature = "serde"))]
    impl FromJson for Memo {
        fn from_json(_: &[u8]) -> Result<Memo, Error> {
            Ok(Memo::default())
        }
    }
    impl Memo {
        fn note(&mut self, _: &Context) -> Result<u32, Error> {
            self.noted.set(self.noted.get() + 1);
            Ok(self.noted.get())
        }
    }
    greenroom::actors! { Memo { methods: { "Note" => note } } }
}

/// What an actor keeps outside of its state does not outlive a call of another one.
#[test]
fn a_change_of_actor_begins_with_an_empty_memory() {
    let host = Host::of(&memo::GREENROOM_MODULE);
    let (a, b) = (host.actor::<memo::Memo>("a"), host.actor::<memo::Memo>("b"));
    assert_eq!(a.call("Note", ()), Ok(1u32));
    assert_eq!(a.call("Note", ()), Ok(2u32));
    assert_eq!(b.call("Note", ()), Ok(1u32));
    assert_eq!(a.call("Note", ()), Ok(1u32));
}
