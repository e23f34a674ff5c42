//! Structs of `record!`, as states and arguments, with and without serde.

use greenroom::prelude::*;
use greenroom::testing::Host;
use greenroom::{FromJson, ToJson};
use std::collections::BTreeMap;

greenroom::record! {
    #[derive(Default)]
    struct List {
        items: Vec<String>,
        r#type: String,
        limit: Option<u32>,
    }

    #[derive(Debug, Default, PartialEq)]
    struct Item {
        name: String,
        count: u64,
    }

    #[derive(Default)]
    struct Nothing {}

    /// Records inside of everything that converts.
    #[derive(Debug, Default, PartialEq)]
    struct Nested {
        item: Item,
        list: Vec<Item>,
        maybe: Option<Item>,
        named: BTreeMap<String, Vec<Option<Item>>>,
    }
}

impl List {
    fn add(&mut self, _: &Context, item: Item) -> Result<Item, Error> {
        self.items.push(format!("{}×{}", item.count, item.name));
        Ok(item)
    }

    fn items(&self, _: &ReadContext) -> Result<Vec<String>, Error> {
        Ok(self.items.clone())
    }
}

impl Nothing {
    fn set(&mut self, ctx: &Context, key: String) -> Result<Vec<String>, Error> {
        ctx.state().set(&key, &key.len())?;
        ctx.state().keys("")
    }
}

greenroom::actors! {
    List { methods: { "Add" => add, "Items" => read_only items } }
    Nothing { methods: { "Set" => set } }
}

#[test]
fn a_record_is_a_state_and_an_argument() {
    let host = Host::new();
    let list = host.actor::<List>("l");
    let tea = || Item {
        name: "tea \"x\"".to_string(),
        count: 2,
    };
    assert_eq!(list.call("Add", tea()), Ok(tea()));
    assert_eq!(list.state_json(), r#"{"items":["2×tea \"x\""]}"#);
    host.drop_memory();
    list.call::<Item>("Add", tea()).unwrap();
    let items: Vec<String> = list.query("Items", ()).unwrap();
    assert_eq!(items.len(), 2);

    list.set_state(0, r#"{"type":"shopping","coupon":[1,{"a":2}]}"#);
    list.call::<Item>("Add", tea()).unwrap();
    assert_eq!(list.keys(), ["coupon", "items", "type"]);
    list.set_state(0, r#"{"type":7}"#);
    let error = list.call::<Item>("Add", tea()).unwrap_err();
    assert_eq!(error.code(), "bad_state");
    assert!(error.message().contains("List: type: "), "{error}");
}

#[test]
fn fields_are_members() {
    let list = List::from_json(br#" {"limit" : 3, "type":"a", "more":null, "type":"b"} "#).unwrap();
    assert_eq!(
        list.to_json().unwrap(),
        br#"{"items":[],"type":"b","limit":3}"#
    );
    for bad in ["", "[]", "null", r#"{"limit":-1}"#, r#"{"items":[1]}"#] {
        let error = List::from_json(bad.as_bytes()).err().expect(bad);
        assert_eq!(error.code(), "bad_json", "{bad}");
    }
}

#[test]
fn an_actor_may_have_keys_alone() {
    let actor = Host::new().actor::<Nothing>("n");
    actor.call::<Vec<String>>("Set", "bb").unwrap();
    let keys = actor.call("Set", "a");
    assert_eq!(keys, Ok(vec!["a".to_string(), "bb".to_string()]));
    assert_eq!(actor.state_json(), r#"{"a":1,"bb":2}"#);
}

/// The feature `serde` is additive: what compiles without it means the same with it.
#[test]
fn records_nest() {
    let text = concat!(
        r#"{"item":{"name":"a","count":1},"list":[{"name":"b","count":2}],"#,
        r#""maybe":null,"named":{"x":[null,{"name":"c","count":3}]}}"#
    );
    let nested = Nested::from_json(text.as_bytes()).unwrap();
    assert_eq!(nested.named["x"][1].as_ref().unwrap().count, 3);
    assert_eq!(String::from_utf8(nested.to_json().unwrap()).unwrap(), text);
    assert_eq!(Nested::from_json(b"{}").unwrap(), Nested::default());
    let error = Nested::from_json(br#"{"list":[{"count":-1}]}"#).unwrap_err();
    assert!(error.message().starts_with("list: "), "{error}");
    assert!(error.message().contains("count: "), "{error}");
}
