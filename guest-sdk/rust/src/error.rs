//! What a method returns when it does not succeed.

use crate::codec::{self, ErrorFrame};
use crate::payload::Payload;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A gRPC status code: the broad kind of an error, which decides the Connect
/// code and the HTTP status that the caller sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Status {
    /// The caller gave up.
    Canceled = 1,
    /// None of the others.
    Unknown = 2,
    /// The request can never succeed as it is.
    InvalidArgument = 3,
    /// It took too long.
    DeadlineExceeded = 4,
    /// Something that the request names does not exist.
    NotFound = 5,
    /// Something that the request would create exists.
    AlreadyExists = 6,
    /// The caller may not do this.
    PermissionDenied = 7,
    /// A limit or a quota is used up.
    ResourceExhausted = 8,
    /// The actor is not in the state that the request needs.
    FailedPrecondition = 9,
    /// A conflict with something that happened at the same time.
    Aborted = 10,
    /// Past the end of what exists.
    OutOfRange = 11,
    /// There is no such operation.
    Unimplemented = 12,
    /// A bug in the actor.
    Internal = 13,
    /// Something needed is not there now.
    Unavailable = 14,
    /// Stored data is lost or damaged.
    DataLoss = 15,
    /// The caller did not say who it is.
    Unauthenticated = 16,
}

impl Status {
    const ALL: [Status; 16] = [
        Status::Canceled,
        Status::Unknown,
        Status::InvalidArgument,
        Status::DeadlineExceeded,
        Status::NotFound,
        Status::AlreadyExists,
        Status::PermissionDenied,
        Status::ResourceExhausted,
        Status::FailedPrecondition,
        Status::Aborted,
        Status::OutOfRange,
        Status::Unimplemented,
        Status::Internal,
        Status::Unavailable,
        Status::DataLoss,
        Status::Unauthenticated,
    ];

    /// The status with this number; [`Status::Unknown`] if there is none.
    #[must_use]
    pub fn from_number(number: u16) -> Status {
        Status::ALL
            .iter()
            .copied()
            .find(|s| *s as u16 == number)
            .unwrap_or(Status::Unknown)
    }
}

/// A failure that reaches the caller as it is. The turn that returns one leaves
/// no trace in the actor's state.
///
/// ```
/// use greenroom::prelude::*;
///
/// let error = Error::failed_precondition("insufficient_funds", "the balance is too low")
///     .with_detail(&25);
/// assert_eq!(error.code(), "insufficient_funds");
/// assert_eq!(error.detail::<i64>(), Ok(25));
/// ```
///
/// What caused it ([`source`](std::error::Error::source)) stays in the guest: it
/// neither reaches the caller nor counts when two errors are compared.
#[derive(Clone)]
#[must_use = "an error does nothing until it is returned"]
pub struct Error(Box<Inner>);

// Boxed, since every method's Result carries it.
#[derive(Clone)]
struct Inner {
    status: Status,
    code: String,
    message: String,
    retryable: bool,
    retry_after_millis: u32,
    detail: Option<Payload>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        let (a, b) = (&self.0, &other.0);
        (a.status, a.retryable, a.retry_after_millis)
            == (b.status, b.retryable, b.retry_after_millis)
            && (&a.code, &a.message, &a.detail) == (&b.code, &b.message, &b.detail)
    }
}

impl Eq for Error {}

/// A constructor for each status that an actor has a use for.
macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident: $status:ident)+) => {
        impl Error {$(
            $(#[$doc])*
            pub fn $name(code: impl Into<String>, message: impl Into<String>) -> Error {
                Error::new(Status::$status, code, message)
            }
        )+}
    };
}

constructors! {
    /// An error of [`Status::InvalidArgument`]: the request can never succeed as it is.
    invalid_argument: InvalidArgument
    /// An error of [`Status::NotFound`]: something that the request names does not exist.
    not_found: NotFound
    /// An error of [`Status::AlreadyExists`]: something that the request would create exists.
    already_exists: AlreadyExists
    /// An error of [`Status::PermissionDenied`]: the caller may not do this.
    permission_denied: PermissionDenied
    /// An error of [`Status::Unauthenticated`]: the caller did not say who it is.
    unauthenticated: Unauthenticated
    /// An error of [`Status::ResourceExhausted`]: a limit or a quota is used up.
    resource_exhausted: ResourceExhausted
    /// An error of [`Status::FailedPrecondition`]: the actor is not in the state that the
    /// request needs.
    failed_precondition: FailedPrecondition
    /// An error of [`Status::Aborted`]: a conflict with something that happened at the same
    /// time.
    aborted: Aborted
    /// An error of [`Status::OutOfRange`]: past the end of what exists.
    out_of_range: OutOfRange
    /// An error of [`Status::Unimplemented`]: there is no such operation.
    unimplemented: Unimplemented
    /// An error of [`Status::Internal`]: a bug in the actor.
    internal: Internal
    /// An error of [`Status::Unavailable`]: something needed is not there now.
    unavailable: Unavailable
    /// An error of [`Status::DeadlineExceeded`]: it took too long.
    deadline_exceeded: DeadlineExceeded
    /// An error of [`Status::DataLoss`]: stored data is lost or damaged.
    data_loss: DataLoss
}

impl Error {
    /// An error. `code` is your own stable name for it, for programs, at most
    /// 128 bytes; `message` is for people, at most 4096. The host cuts what is
    /// longer.
    pub fn new(status: Status, code: impl Into<String>, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            status,
            code: code.into(),
            message: message.into(),
            retryable: false,
            retry_after_millis: 0,
            detail: None,
            source: None,
        }))
    }

    /// Says that the same call may succeed later.
    pub fn retryable(mut self) -> Error {
        self.0.retryable = true;
        self
    }

    /// Says that the same call may succeed after a while, which callers over HTTP
    /// find in the header `Retry-After`. Rounded up to milliseconds, at most 49 days.
    pub fn retry_after(mut self, delay: Duration) -> Error {
        let millis = (delay.as_nanos() + 999_999) / 1_000_000;
        self.0.retryable = true;
        self.0.retry_after_millis = u32::try_from(millis).unwrap_or(u32::MAX);
        self
    }

    /// Says what caused it.
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        self.0.source = Some(source.into().into());
        self
    }

    /// Attaches data of any content type, at most 64 KiB, as
    /// [`Error::with_detail`] does.
    pub fn with_detail_payload(mut self, detail: Payload) -> Error {
        if detail.body.len() > codec::MAX_ERROR_DETAIL {
            let why = format!(
                "it has {} bytes; at most {} are allowed",
                detail.body.len(),
                codec::MAX_ERROR_DETAIL
            );
            return self.without_detail(&why);
        }
        self.0.detail = Some(detail);
        self
    }

    pub(crate) fn without_detail(mut self, why: &str) -> Error {
        self.0.message.push_str(" (detail left out: ");
        self.0.message.push_str(why);
        self.0.message.push(')');
        self
    }

    /// Its broad kind.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// The application's name for it.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// What it says to people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// How long to wait before the same call; `None` if it is not said.
    #[must_use]
    pub fn retry_delay(&self) -> Option<Duration> {
        let millis = self.0.retry_after_millis;
        Some(Duration::from_millis(millis.into())).filter(|delay| !delay.is_zero())
    }

    /// The detail as it is.
    #[must_use]
    pub fn detail_payload(&self) -> Option<&Payload> {
        self.0.detail.as_ref()
    }

    /// A `bad_json` error: some text is not the JSON that was expected.
    pub(crate) fn bad_json(message: impl Into<String>) -> Error {
        Error::new(Status::InvalidArgument, "bad_json", message)
    }

    /// As it is, with another code.
    pub(crate) fn with_code(mut self, code: &str) -> Error {
        self.0.code = code.to_string();
        self
    }

    /// Puts what was being done before the message.
    pub(crate) fn context(mut self, doing: &str) -> Error {
        self.0.message.insert_str(0, ": ");
        self.0.message.insert_str(0, doing);
        self
    }

    pub(crate) fn to_frame(&self) -> Vec<u8> {
        codec::encode_error(&self.frame())
    }

    pub(crate) fn frame(&self) -> ErrorFrame<'_> {
        let detail = self.0.detail.as_ref();
        ErrorFrame {
            status: self.0.status as u16,
            code: &self.0.code,
            message: &self.0.message,
            retryable: self.0.retryable,
            retry_after_millis: self.0.retry_after_millis,
            detail_content_type: detail.map_or("", |d| &d.content_type),
            detail: detail.map_or(&[], |d| &d.body),
        }
    }

    pub(crate) fn from_frame(frame: &ErrorFrame<'_>) -> Error {
        let mut error = Error::new(
            Status::from_number(frame.status),
            codec::cut(frame.code, codec::MAX_ERROR_CODE),
            codec::cut(frame.message, codec::MAX_ERROR_MESSAGE),
        );
        error.0.retryable = frame.retryable;
        error.0.retry_after_millis = frame.retry_after_millis;
        if !frame.detail.is_empty() || !frame.detail_content_type.is_empty() {
            error.0.detail = Some(Payload::new(frame.detail_content_type, frame.detail));
        }
        error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.code.is_empty() {
            return f.write_str(&self.0.message);
        }
        write!(f, "{}: {}", self.0.code, self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("Error");
        s.field("status", &self.0.status)
            .field("code", &self.0.code)
            .field("message", &self.0.message);
        if self.0.retryable {
            s.field("retryable", &true);
        }
        if let Some(delay) = self.retry_delay() {
            s.field("retry_after", &delay);
        }
        if let Some(detail) = &self.0.detail {
            s.field("detail", &String::from_utf8_lossy(&detail.body));
        }
        if let Some(source) = &self.0.source {
            s.field("source", source);
        }
        s.finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.0.source.as_deref()?;
        Some(source)
    }
}

/// Gives the error of any `Result` a name that callers understand.
///
/// ```
/// use greenroom::prelude::*;
///
/// fn parse(text: &str) -> Result<i64, Error> {
///     text.parse::<i64>().code_as(Status::InvalidArgument, "bad_number")
/// }
///
/// let error = parse("ten").unwrap_err();
/// assert_eq!(error.to_string(), "bad_number: invalid digit found in string");
/// assert!(std::error::Error::source(&error).is_some());
/// ```
pub trait ResultExt<T> {
    /// Makes the error an [`Error`] with this code. Its message is what the error
    /// says, its source is the error, and its status is [`Status::Unknown`]:
    /// [`code_as`](ResultExt::code_as) takes another one.
    ///
    /// An [`Error`] keeps its status, its message and all the rest, and only its code
    /// is replaced.
    ///
    /// # Errors
    ///
    /// There was one.
    fn code(self, code: impl Into<String>) -> Result<T, Error>;

    /// As [`code`](ResultExt::code), with a status, for an [`Error`] as well.
    ///
    /// # Errors
    ///
    /// There was one.
    fn code_as(self, status: Status, code: impl Into<String>) -> Result<T, Error>;
}

impl<T, E: std::error::Error + Send + Sync + 'static> ResultExt<T> for Result<T, E> {
    fn code(self, code: impl Into<String>) -> Result<T, Error> {
        self.map_err(|e| {
            let mut error = wrap(Box::new(e));
            error.0.code = code.into();
            error
        })
    }

    fn code_as(self, status: Status, code: impl Into<String>) -> Result<T, Error> {
        self.map_err(|e| {
            let mut error = wrap(Box::new(e));
            error.0.status = status;
            error.0.code = code.into();
            error
        })
    }
}

/// The error as an [`Error`], which it may be already.
fn wrap(e: Box<dyn std::error::Error + Send + Sync>) -> Error {
    match e.downcast::<Error>() {
        Ok(e) => *e,
        Err(e) => Error::new(Status::Unknown, "", e.to_string()).with_source(e),
    }
}

/// An error of [`Status::Unknown`] without a code, for a method that returns
/// `Result<_, Box<dyn std::error::Error + Send + Sync>>`. An [`Error`] in the box
/// comes out as it was.
impl From<Box<dyn std::error::Error + Send + Sync>> for Error {
    fn from(e: Box<dyn std::error::Error + Send + Sync>) -> Error {
        wrap(e)
    }
}

#[cfg(feature = "serde")]
impl From<serde_json::Error> for Error {
    fn from(e: serde_json::Error) -> Error {
        Error::bad_json(e.to_string()).with_source(e)
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Error {
        match never {}
    }
}
