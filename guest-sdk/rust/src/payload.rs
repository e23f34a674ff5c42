//! Bytes with a content type.

/// The content type of JSON.
pub const JSON: &str = "application/json";

/// Bytes with a content type, for methods that do not speak JSON.
///
/// ```
/// use greenroom::prelude::*;
///
/// #[derive(Default)]
/// # #[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
/// struct Image {}
///
/// impl Image {
///     fn put(&mut self, ctx: &Context, image: Payload) -> Result<(), Error> {
///         ctx.state().set_bytes("image", &image.body)
///     }
///     fn get(&self, ctx: &ReadContext) -> Result<Payload, Error> {
///         let image = ctx.state().get_bytes("image")?.unwrap_or_default();
///         Ok(Payload::new("image/png", image))
///     }
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Payload {
    /// A MIME type; empty means JSON.
    pub content_type: String,
    /// The bytes.
    pub body: Vec<u8>,
}

impl Payload {
    /// Bytes with a content type.
    #[must_use]
    pub fn new(content_type: impl Into<String>, body: impl Into<Vec<u8>>) -> Payload {
        Payload {
            content_type: content_type.into(),
            body: body.into(),
        }
    }
}
