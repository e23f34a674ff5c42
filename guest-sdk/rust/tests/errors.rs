//! Errors on their way from an actor to its caller.

use greenroom::prelude::*;
use greenroom::testing::Host;
use std::error::Error as _;
use std::time::Duration;

/// The errors of an application, by way of thiserror: the recipe of the README.
#[derive(Debug, thiserror::Error)]
enum ShopError {
    #[error("only {left} left")]
    OutOfStock { left: u32 },
    #[error("{0:?} is no number")]
    BadNumber(String, #[source] std::num::ParseIntError),
    #[error(transparent)]
    Greenroom(#[from] Error),
}

impl From<ShopError> for Error {
    fn from(e: ShopError) -> Error {
        let (status, code) = match e {
            ShopError::OutOfStock { .. } => (Status::ResourceExhausted, "out_of_stock"),
            ShopError::BadNumber(..) => (Status::InvalidArgument, "bad_number"),
            ShopError::Greenroom(e) => return e,
        };
        Error::new(status, code, e.to_string()).with_source(e)
    }
}

greenroom::record! {
    #[derive(Default)]
    pub struct Shop {
        sold: u32,
    }
}

impl Shop {
    fn sell(&mut self, ctx: &Context, count: String) -> Result<u32, ShopError> {
        let count: u32 = count.parse().map_err(|e| ShopError::BadNumber(count, e))?;
        if count > 3 {
            return Err(ShopError::OutOfStock { left: 3 });
        }
        ctx.state().set(&"x".repeat(count as usize), &count)?;
        self.sold += count;
        Ok(self.sold)
    }

    fn wait(&mut self, _: &Context) -> Result<(), Error> {
        ensure!(
            self.sold > 0,
            Error::unavailable("closed", "come back").retry_after(Duration::from_micros(1500))
        );
        Ok(())
    }
}

greenroom::actors! {
    Shop { methods: { "Sell" => sell, "Wait" => wait } }
}

#[test]
fn an_error_type_of_the_application_keeps_its_codes() {
    let shop = Host::new().actor::<Shop>("s");
    for (count, status, want) in [
        ("4", Status::ResourceExhausted, "out_of_stock: only 3 left"),
        (
            "x",
            Status::InvalidArgument,
            "bad_number: \"x\" is no number",
        ),
        (
            "0",
            Status::InvalidArgument,
            "invalid_key: set state key \"\": a state key must have 1 to 512 bytes of UTF-8",
        ),
    ] {
        let error = shop.call::<u32>("Sell", count.to_string()).unwrap_err();
        assert_eq!((error.status(), error.to_string().as_str()), (status, want));
    }
    let number = ShopError::BadNumber("x".into(), "x".parse::<u32>().unwrap_err());
    let error = Error::from(number);
    assert!(error.source().unwrap().is::<ShopError>());
    assert!(
        error.source().unwrap().source().is_some(),
        "the chain ends too early"
    );
}

#[test]
fn a_delay_reaches_the_caller() {
    let shop = Host::new().actor::<Shop>("s");
    let error = shop.call::<()>("Wait", ()).unwrap_err();
    assert!(error.is_retryable());
    assert_eq!(error.retry_delay(), Some(Duration::from_millis(2)));
    assert_eq!(Error::aborted("c", "m").retryable().retry_delay(), None);
}

#[test]
fn any_error_takes_a_code() {
    let parsed = "x".parse::<u8>().code("bad_number").unwrap_err();
    assert_eq!(parsed.status(), Status::Unknown);
    assert_eq!(
        parsed.to_string(),
        "bad_number: invalid digit found in string"
    );
    assert!(parsed.source().unwrap().is::<std::num::ParseIntError>());
    let placed = "x"
        .parse::<u8>()
        .code_as(Status::InvalidArgument, "bad_number");
    assert_eq!(placed.unwrap_err().status(), Status::InvalidArgument);

    // One of ours keeps what it says.
    let ours: Result<(), Error> = Err(Error::not_found("no_book", "no such book").retryable());
    let renamed = ours.clone().code("gone").unwrap_err();
    assert_eq!(
        renamed,
        Error::not_found("gone", "no such book").retryable()
    );
    let moved = ours.code_as(Status::DataLoss, "lost").unwrap_err();
    assert_eq!(moved, Error::data_loss("lost", "no such book").retryable());
}

#[test]
fn the_source_stays_behind() {
    let error = Error::internal("c", "m").with_source("because");
    assert_eq!(error.source().unwrap().to_string(), "because");
    assert_eq!(error, Error::internal("c", "m"));
    assert!(format!("{error:?}").contains("because"));
    let boxed: Box<dyn std::error::Error + Send + Sync> = error.into();
    assert_eq!(Error::from(boxed).code(), "c");
}
