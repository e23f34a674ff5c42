//! A guest whose service has messages with fields of every kind.

pub mod sink;

use greenroom::prelude::*;
use sink::greenroomtest::sink::parts::{step::Kind, Step};
use sink::{http_request, HttpRequest, Nothing, Sink, SinkServiceActor};

greenroom::record! {
    #[derive(Default)]
    pub struct Echoes {
        count: i64,
    }
}

impl SinkServiceActor for Echoes {
    fn echo(&mut self, _: &Context, request: Sink) -> Result<Sink, Error> {
        self.count += 1;
        Ok(request)
    }

    fn look(&self, _: &ReadContext, _: Sink) -> Result<Nothing, Error> {
        Ok(Nothing {})
    }

    fn put(&mut self, _: &Context, request: Sink) -> Result<Sink, Error> {
        Ok(request)
    }

    fn r#move(&mut self, _: &Context, step: Step) -> Result<HttpRequest, Error> {
        ensure!(
            step.kind() == Kind::Second && step.next.is_some(),
            Error::invalid_argument("bad_step", format!("{step:?}"))
        );
        Ok(HttpRequest {
            r#type: http_request::Type::Self_ as i32,
            self_: step.leaf.text().to_string(),
            r#match: Some(http_request::Match::Super(step.count == 7)),
            ..HttpRequest::default()
        })
    }
}

greenroom::actors! {
    Echoes { service: { sink::SinkService } }
}
