//! What generated code builds on, with a service that is written by hand: its messages are
//! bytes, as those of a codec are.

use greenroom::prelude::*;
use greenroom::protobuf::{self, Called, MethodSpec, Protobuf, Rpc, Service};
use greenroom::testing::Host;
use greenroom::{Input, Output, Ref, TypedMessage};

/// A message of one field: its bytes are ASCII digits.
#[derive(Debug, PartialEq)]
pub struct Cents(i64);

impl Input for Cents {
    fn from_payload(content_type: &str, body: &[u8]) -> Result<Cents, Error> {
        protobuf::read("bank.Cents", content_type, body, |body| {
            if body.is_empty() {
                return Ok(Cents(0));
            }
            let text = String::from_utf8_lossy(body);
            text.parse().map(Cents)
        })
    }
}

impl Output for Cents {
    fn into_payload(self) -> Result<Payload, Error> {
        Ok(protobuf::payload(self.0.to_string().into_bytes()))
    }
}

pub trait BankActor: Sized {
    fn put(&mut self, ctx: &Context, request: Cents) -> Result<Cents, Error>;
    fn look(&self, ctx: &ReadContext, request: Cents) -> Result<Cents, Error>;
}

pub struct Bank;

impl<A: BankActor> Service<A> for Bank {
    const PROTOBUF: Protobuf = Protobuf {
        service: "bank.Bank",
        descriptor: "AAAA",
        id_field: "id",
        rpcs: &[
            MethodSpec::new("Put").idempotent(),
            MethodSpec::new("Look").read_only(),
        ],
    };

    fn call(rpc: Rpc<'_, A>) -> Called {
        match rpc.method {
            "Put" => rpc.run(<A as BankActor>::put),
            "Look" => rpc.run(<A as BankActor>::look),
            _ => None,
        }
    }
}

pub struct BankRef(pub Ref);

impl BankRef {
    fn put(&self, request: Cents) -> TypedMessage<Cents> {
        protobuf::message(&self.0, "Put", request)
    }

    fn look(&self, request: Cents) -> TypedMessage<Cents> {
        protobuf::message(&self.0, "Look", request)
    }
}

greenroom::record! {
    #[derive(Default)]
    pub struct Vault { cents: i64 }
}

impl BankActor for Vault {
    fn put(&mut self, _: &Context, request: Cents) -> Result<Cents, Error> {
        self.cents += request.0;
        Ok(Cents(self.cents))
    }

    fn look(&self, _: &ReadContext, request: Cents) -> Result<Cents, Error> {
        Ok(Cents(self.cents - request.0))
    }
}

impl Vault {
    /// A method without an rpc.
    fn empty(&mut self, _: &Context, to: String) -> Result<i64, Error> {
        self.cents = to.len() as i64;
        Ok(self.cents)
    }

    fn pay(&mut self, ctx: &Context, to: String) -> Result<i64, Error> {
        let other = BankRef(Ref::of::<Vault>(to));
        let theirs = other.put(Cents(5)).atomic().call(ctx, self)?;
        other.put(Cents(1)).send(ctx)?;
        Ok(theirs.0)
    }

    fn peer(&self, ctx: &ReadContext, of: String) -> Result<i64, Error> {
        let other = BankRef(Ref::of::<Vault>(of));
        Ok(other.look(Cents(0)).query(ctx)?.0)
    }

    fn untyped(&mut self, ctx: &Context, to: String) -> Result<i64, Error> {
        Ref::of::<Vault>(to).message("Put", &5_i64).call(ctx, self)
    }
}

greenroom::actors! {
    Vault {
        service: { Bank },
        methods: {
            "Empty" => empty,
            "Pay" => pay,
            "Peer" => read_only peer,
            "Untyped" => untyped,
        },
        hooks: { created: "Put" },
    }
}

const PROTOBUF: &str = "application/protobuf";

#[test]
fn rpcs_are_methods() {
    let host = Host::of(&GREENROOM_MODULE);
    let ann = host.actor::<Vault>("ann");
    assert_eq!(ann.call("Put", Cents(30)), Ok(Cents(30)));
    assert_eq!(ann.query("Look", Cents(10)), Ok(Cents(20)));
    assert_eq!(
        ann.query::<Cents>("Put", Cents(1)).unwrap_err().code(),
        "not_read_only"
    );
    let reply = ann
        .call_payload("Look", Payload::new(PROTOBUF, "10"))
        .unwrap();
    assert_eq!(reply, Payload::new(PROTOBUF, "20"));
    assert_eq!(ann.call("Empty", "four"), Ok(4));
    assert_eq!(ann.state_json(), r#"{"cents":4}"#);
}

#[test]
fn other_payloads_are_refused() {
    let host = Host::of(&GREENROOM_MODULE);
    let ann = host.actor::<Vault>("ann");
    let refused = |payload: Payload, why: &str| {
        let e = ann.call_payload("Put", payload).unwrap_err();
        assert_eq!(
            (e.status(), e.code()),
            (Status::InvalidArgument, protobuf::BAD_PROTOBUF)
        );
        assert!(
            e.message().contains("the payload is no bank.Cents: "),
            "{e}"
        );
        assert!(e.message().contains(why), "{e}");
    };
    refused(
        Payload::new("", "5"),
        "it is application/json, where application/protobuf is needed",
    );
    refused(Payload::new("text/plain", "5"), "it is text/plain, where");
    refused(Payload::new(PROTOBUF, "five"), "invalid digit");
    assert_eq!(ann.version(), 0);
    // An empty message has no bytes, and often no content type.
    assert!(ann.call_payload("Put", Payload::default()).is_ok());
}

#[test]
fn actors_call_and_send_messages() {
    let host = Host::of(&GREENROOM_MODULE);
    let (ann, bob) = (host.actor::<Vault>("ann"), host.actor::<Vault>("bob"));
    assert_eq!(ann.call("Pay", "bob"), Ok(5));
    host.deliver();
    assert_eq!(bob.call("Look", Cents(0)), Ok(Cents(6)));
    assert_eq!(ann.query("Peer", "bob"), Ok(6));
    let e = ann.call::<i64>("Untyped", "bob").unwrap_err();
    assert_eq!(e.code(), protobuf::BAD_PROTOBUF);
}

#[cfg(feature = "macros")]
mod attribute {
    use super::*;

    macro_rules! vault {
        ($name:ident) => {
            greenroom::record! {
                #[derive(Default)]
                pub struct $name { cents: i64 }
            }
        };
    }
    vault! { Safe }
    vault! { Chest }
    vault! { Trunk }

    #[greenroom::actor(service = Bank, name = "bank.Safe")]
    impl BankActor for Safe {
        fn put(&mut self, _: &Context, request: Cents) -> Result<Cents, Error> {
            self.cents += request.0;
            Ok(Cents(self.cents))
        }

        fn look(&self, _: &ReadContext, _: Cents) -> Result<Cents, Error> {
            Ok(Cents(self.cents))
        }
    }

    impl BankActor for Chest {
        fn put(&mut self, _: &Context, request: Cents) -> Result<Cents, Error> {
            Ok(request)
        }

        fn look(&self, _: &ReadContext, request: Cents) -> Result<Cents, Error> {
            Ok(request)
        }
    }

    impl BankActor for Trunk {
        fn put(&mut self, _: &Context, request: Cents) -> Result<Cents, Error> {
            Ok(request)
        }

        fn look(&self, _: &ReadContext, request: Cents) -> Result<Cents, Error> {
            Ok(request)
        }
    }

    // Without methods of its own.
    #[greenroom::actor(service = Bank)]
    impl Trunk {}

    #[greenroom::actor(service = Bank)]
    impl Chest {
        #[method(private)]
        fn sweep(&mut self, _: &Context) -> Result<(), Error> {
            Ok(())
        }
    }

    greenroom::module! { Safe, Chest, Trunk }

    #[test]
    fn the_attribute_knows_the_service() {
        let host = Host::of(&GREENROOM_MODULE);
        let safe = host.actor_named("bank.Safe", "a");
        assert_eq!(safe.call("Put", Cents(2)), Ok(Cents(2)));
        assert_eq!(safe.query("Look", Cents(1)), Ok(Cents(2)));
        let chest = host.actor::<Chest>("a");
        assert_eq!(chest.call("Put", Cents(3)), Ok(Cents(3)));
        assert_eq!(
            chest.call::<()>("Sweep", ()).unwrap_err().code(),
            "method_private"
        );
        let trunk = host.actor::<Trunk>("a");
        assert_eq!(trunk.call("Put", Cents(4)), Ok(Cents(4)));
        let names: Vec<&str> = <Chest as greenroom::Actor>::SPEC
            .all_methods()
            .map(|m| m.name)
            .collect();
        assert_eq!(names, ["Put", "Look", "Sweep"]);
    }
}
