use echoes::sink::greenroomtest::sink::parts::{step, Step};
use echoes::sink::{http_request, sink as in_sink, HttpRequest, Sink, SinkServiceRef};
use echoes::{Echoes, GREENROOM_MODULE};
use greenroom::testing::Host;
use greenroom::{Actor, Input, Output, Ref};

fn step(text: &str) -> Step {
    Step {
        count: 7,
        kind: step::Kind::Second as i32,
        next: Some(Box::default()),
        leaf: Box::new(step::Leaf {
            text: Some(text.to_string()),
            back: None,
        }),
        ..Step::default()
    }
}

#[test]
fn messages_are_inputs_and_outputs() {
    let payload = step("leaf").into_payload().unwrap();
    assert_eq!(payload.content_type, "application/protobuf");
    let read = Step::from_payload(&payload.content_type, &payload.body);
    assert_eq!(read, Ok(step("leaf")));
    let e = Step::from_payload("application/protobuf", &[0xff]).unwrap_err();
    let want = "the payload is no greenroomtest.sink.parts.Step: ";
    assert!(e.message().starts_with(want), "{e}");
}

#[test]
fn names_that_are_words_of_rust() {
    let host = Host::of(&GREENROOM_MODULE);
    let actor = host.actor::<Echoes>("a");
    let request: HttpRequest = actor.call("Move", step("leaf")).unwrap();
    assert_eq!(request.r#type(), http_request::Type::Self_);
    assert_eq!(request.self_, "leaf");
    assert_eq!(request.r#match, Some(http_request::Match::Super(true)));
    let e = actor.call::<HttpRequest>("Move", Step::default());
    assert_eq!(e.unwrap_err().code(), "bad_step");
}

#[test]
fn enumerations_and_oneofs() {
    let host = Host::of(&GREENROOM_MODULE);
    let mut sent = Sink {
        choice: Some(in_sink::Choice::ChosenInner(Box::default())),
        ..Sink::default()
    };
    sent.set_colour(in_sink::Colour::Negative);
    sent.colours_by_name.insert("unknown".to_string(), 77);
    let got: Sink = host
        .actor::<Echoes>("a")
        .call("Echo", sent.clone())
        .unwrap();
    assert_eq!(got, sent);
    assert_eq!(got.colour, -1);
}

#[test]
fn the_service_is_in_the_declaration() {
    let protobuf = Echoes::SPEC.protobuf;
    assert_eq!(protobuf.service, "greenroomtest.sink.v1.SinkService");
    let look = Echoes::SPEC.method("Look").unwrap();
    assert!(look.read_only && !look.idempotent);
    assert!(Echoes::SPEC.method("Put").unwrap().idempotent);
    // A reference is a value as others are.
    let actor = SinkServiceRef(Ref::of::<Echoes>("a"));
    assert_eq!(actor.clone(), actor);
}
