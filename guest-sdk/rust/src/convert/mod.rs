//! How values become JSON, and payloads and state become values.
//!
//! With the `serde` feature, which is on by default, every type that serde knows
//! converts. Without it these do: the integers, `f32`, `f64`, `bool`, `String`
//! and `&str`, `()` as `null`, `Option`, `Vec` and slices (a `Vec<u8>` is an
//! array of numbers; take a [`Payload`] for raw bytes), `BTreeMap<String, _>`,
//! and structs made by [`record!`](crate::record).

use crate::error::Error;

pub use crate::payload::{Payload, JSON};

#[cfg(not(feature = "serde"))]
mod builtin;
#[cfg(feature = "serde")]
mod with_serde;

/// Can be written as JSON.
///
/// With the `serde` feature every `serde::Serialize` is one; without it the types of
/// this module, and those that [`record!`](crate::record) makes.
///
/// It is not to be implemented by hand: such a type would not convert inside of
/// another where any crate of the build turns the feature on.
#[cfg_attr(
    greenroom_on_unimplemented,
    diagnostic::on_unimplemented(
        message = "`{Self}` has no form as JSON",
        label = "cannot be written as JSON",
        note = "with the feature `serde` of the crate greenroom, write `#[derive(Serialize)]` over it; without, declare it in `greenroom::record!`"
    )
)]
pub trait ToJson {
    /// The value as one JSON text.
    ///
    /// # Errors
    ///
    /// JSON has no form for it: a map whose keys are not strings, for example.
    fn to_json(&self) -> Result<Vec<u8>, Error>;

    /// Appends what [`to_json`](ToJson::to_json) returns.
    #[doc(hidden)]
    fn append_json(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.extend_from_slice(&self.to_json()?);
        Ok(())
    }
}

/// Can be read from JSON.
///
/// As [`ToJson`], for `serde::Deserialize`; not to be implemented by hand either.
#[cfg_attr(
    greenroom_on_unimplemented,
    diagnostic::on_unimplemented(
        message = "`{Self}` cannot be read from JSON",
        label = "cannot be read from JSON",
        note = "with the feature `serde` of the crate greenroom, write `#[derive(Deserialize)]` over it; without, declare it in `greenroom::record!`"
    )
)]
pub trait FromJson: Sized {
    /// The value of one JSON text.
    ///
    /// # Errors
    ///
    /// `bad_json`: the text is not JSON, or not of this type.
    fn from_json(text: &[u8]) -> Result<Self, Error>;
}

/// What a method can take: anything [`FromJson`], or a [`Payload`].
///
/// JSON is assumed whatever content type the caller names, since many callers
/// name a wrong one; a payload that is not JSON fails as `bad_json`. No payload
/// at all counts as `null` or, where that is no value of the type, as `{}`: as an
/// object whose members may all be left out.
#[cfg_attr(
    greenroom_on_unimplemented,
    diagnostic::on_unimplemented(
        message = "`{Self}` cannot be the argument of a method",
        label = "the argument of this method is a `{Self}`, which cannot be read from JSON",
        note = "with the feature `serde` of the crate greenroom, write `#[derive(Deserialize)]` over it; without, declare it in `greenroom::record!`; for bytes of another kind, take a `Payload`"
    )
)]
pub trait Input: Sized {
    /// Reads what the caller sent.
    ///
    /// # Errors
    ///
    /// `bad_json`.
    fn from_payload(content_type: &str, body: &[u8]) -> Result<Self, Error>;
}

#[cfg_attr(greenroom_do_not_recommend, diagnostic::do_not_recommend)]
impl<T: FromJson> Input for T {
    fn from_payload(_: &str, body: &[u8]) -> Result<T, Error> {
        if body.is_empty() {
            return T::from_json(b"null")
                .or_else(|_| T::from_json(b"{}"))
                .map_err(|_| Error::bad_json("the payload is empty; the method takes JSON"));
        }
        T::from_json(body).map_err(|e| e.context("payload"))
    }
}

impl Input for Payload {
    fn from_payload(content_type: &str, body: &[u8]) -> Result<Payload, Error> {
        Ok(Payload::new(content_type, body))
    }
}

/// What a method can return: anything [`ToJson`], or a [`Payload`].
#[cfg_attr(
    greenroom_on_unimplemented,
    diagnostic::on_unimplemented(
        message = "a method cannot answer with `{Self}`",
        label = "this method answers with a `{Self}`, which cannot be written as JSON",
        note = "with the feature `serde` of the crate greenroom, write `#[derive(Serialize)]` over it; without, declare it in `greenroom::record!`; for bytes of another kind, return a `Payload`"
    )
)]
pub trait Output {
    /// Writes the reply.
    ///
    /// # Errors
    ///
    /// `bad_reply`: JSON has no form for it.
    fn into_payload(self) -> Result<Payload, Error>;
}

#[cfg_attr(greenroom_do_not_recommend, diagnostic::do_not_recommend)]
impl<T: ToJson> Output for T {
    fn into_payload(self) -> Result<Payload, Error> {
        Ok(Payload {
            content_type: String::new(), // JSON
            body: self.to_json().map_err(|e| e.with_code("bad_reply"))?,
        })
    }
}

impl Output for Payload {
    fn into_payload(self) -> Result<Payload, Error> {
        Ok(self)
    }
}

impl Error {
    /// Attaches data for programs, as JSON, at most 64 KiB. A detail that does
    /// not fit or cannot be written as JSON is left out, and the message says
    /// so.
    pub fn with_detail<T: ToJson + ?Sized>(self, detail: &T) -> Error {
        match detail.to_json() {
            Ok(body) => self.with_detail_payload(Payload::new(JSON, body)),
            Err(e) => self.without_detail(e.message()),
        }
    }

    /// The JSON detail as a `T`.
    ///
    /// # Errors
    ///
    /// There is none (`not_found`), or it is no `T` (`bad_json`).
    pub fn detail<T: FromJson>(&self) -> Result<T, Error> {
        match self.detail_payload() {
            Some(detail) => T::from_json(&detail.body),
            None => Err(Error::not_found("no_detail", "the error has no detail")),
        }
    }
}
