//! What an actor may use beyond its own state, if its type declares it and its
//! app was given it: `abi/SPEC.md` section 6.

use crate::codec::{self, HttpRequestFrame, HttpResponseFrame};
use crate::context::{direct, ReadContext};
use crate::error::{Error, Status};
use crate::host::Code;
use std::time::Duration;

impl ReadContext {
    /// A configuration value of the app.
    ///
    /// # Errors
    ///
    /// `denied`: the type does not declare it; `not_set`: the app has none of that
    /// name; `not_ready`: the host cannot give it now.
    pub fn config(&self, name: &str) -> Result<String, Error> {
        let value = direct!(self, config_get(name)).map_err(|code| {
            refused(
                code,
                "configuration value",
                name,
                &format!("config set {name}=VALUE"),
            )
        })?;
        text(value, name)
    }

    /// A secret of the app. Keep it in a local variable: what is in the state or in
    /// the log is a secret no more.
    ///
    /// # Errors
    ///
    /// As those of [`ReadContext::config`], and `bad_text` for bytes that are not UTF-8:
    /// [`ReadContext::secret_bytes`] gives those.
    pub fn secret(&self, name: &str) -> Result<String, Error> {
        text(self.secret_bytes(name)?, name)
    }

    /// A secret of the app, whatever bytes it has.
    ///
    /// # Errors
    ///
    /// As those of [`ReadContext::config`].
    pub fn secret_bytes(&self, name: &str) -> Result<Vec<u8>, Error> {
        direct!(self, secret_get(name))
            .map_err(|code| refused(code, "secret", name, &format!("secrets set {name}")))
    }

    /// Sends requests to the hosts that the type declares and its app was granted.
    ///
    /// A request is no part of the turn's transaction: when the turn fails later, it
    /// has been sent all the same. In read-only methods only GET and HEAD are
    /// allowed.
    #[must_use]
    pub fn http(&self) -> Http<'_> {
        Http { ctx: self }
    }
}

fn refused(code: Code, what: &str, name: &str, command: &str) -> Error {
    match code {
        Code::DENIED => Error::new(
            Status::PermissionDenied,
            "denied",
            format!("the type does not declare the {what} {name:?}; add it to its capabilities"),
        ),
        Code::NOT_FOUND => Error::new(
            Status::FailedPrecondition,
            "not_set",
            format!("the app has no {what} {name:?}; set it with: greenroom {command}"),
        ),
        Code::NOT_READY => Error::new(
            Status::Unavailable,
            "not_ready",
            format!("the host cannot give the {what} {name:?} now"),
        )
        .retryable(),
        code => code.error(what),
    }
}

fn text(value: Vec<u8>, name: &str) -> Result<String, Error> {
    String::from_utf8(value).map_err(|_| {
        Error::new(
            Status::FailedPrecondition,
            "bad_text",
            format!("{name:?} is not UTF-8"),
        )
    })
}

/// Sends requests; from [`ReadContext::http`].
#[derive(Clone, Copy, Debug)]
pub struct Http<'a> {
    ctx: &'a ReadContext,
}

/// A request to be sent.
///
/// ```
/// use greenroom::Request;
/// use std::time::Duration;
///
/// let request = Request::new("POST", "https://api.example.com/orders")
///     .header("Content-Type", "application/json")
///     .body(r#"{"item":"tea"}"#)
///     .timeout(Duration::from_secs(2));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// Empty means GET.
    pub method: String,
    /// Where it goes.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// What it carries.
    pub body: Vec<u8>,
    /// How long it may take, answer included; `None`: as long as the turn.
    pub timeout: Option<Duration>,
    /// Whether a redirect is answered as it is, instead of being followed.
    pub no_redirects: bool,
}

impl Request {
    /// A request without headers and body.
    #[must_use]
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Request {
        Request {
            method: method.into(),
            url: url.into(),
            ..Request::default()
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Request {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    /// Sets how long it may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Request {
        self.timeout = Some(timeout);
        self
    }

    /// Takes a redirect as the answer, instead of following it.
    #[must_use]
    pub fn no_redirects(mut self) -> Request {
        self.no_redirects = true;
        self
    }
}

/// The answer to a request, whatever its status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Response {
    /// The status, such as 200.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// What it carries.
    pub body: Vec<u8>,
}

impl Response {
    /// An answer without headers and body, for tests:
    /// [`testing::Host::handle_http`](crate::testing::Host::handle_http) gives it.
    #[must_use]
    pub fn new(status: u16) -> Response {
        Response {
            status,
            ..Response::default()
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Response {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Response {
        self.body = body.into();
        self
    }

    /// The first header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Whether the status is one of success, 200 to 299.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Http<'_> {
    /// Sends a GET request.
    ///
    /// # Errors
    ///
    /// As those of [`Http::send`].
    pub fn get(&self, url: &str) -> Result<Response, Error> {
        self.send(&Request::new("GET", url))
    }

    /// Sends a POST request.
    ///
    /// # Errors
    ///
    /// As those of [`Http::send`].
    pub fn post(
        &self,
        url: &str,
        content_type: &str,
        body: impl Into<Vec<u8>>,
    ) -> Result<Response, Error> {
        let request = Request::new("POST", url).header("Content-Type", content_type);
        self.send(&request.body(body))
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    ///
    /// There is no answer. The code is `http_` and one of `abi/SPEC.md` section 6:
    /// `http_denied`, `http_timeout`, `http_unreachable`, …
    pub fn send(&self, request: &Request) -> Result<Response, Error> {
        // Rounded up: a short timeout must not become none.
        let timeout = request.timeout.map_or(0, |t| {
            let millis = (t.as_nanos() + 999_999) / 1_000_000;
            u32::try_from(millis.max(1)).unwrap_or(u32::MAX)
        });
        let headers = request.headers.iter();
        let frame = codec::encode_http_request(&HttpRequestFrame {
            method: &request.method,
            url: &request.url,
            headers: headers.map(|(n, v)| (n.as_str(), v.as_str())).collect(),
            body: &request.body,
            timeout_millis: timeout,
            flags: if request.no_redirects {
                codec::FLAG_NO_REDIRECTS
            } else {
                0
            },
        });
        let bytes = direct!(self.ctx, http(&frame)).map_err(|code| match code {
            Code::INVALID => http_error(
                "invalid_request",
                "the request has a header without a name, or too many headers",
            ),
            code => code.error("HTTP request"),
        })?;
        let answer = codec::decode_http_response(&bytes)
            .map_err(|e| Error::new(Status::Internal, "bad_frame", e.to_string()))?;
        if answer.status == 0 {
            return Err(http_error(answer.code, answer.message));
        }
        Ok(Response::from_frame(&answer))
    }
}

impl Response {
    fn from_frame(frame: &HttpResponseFrame<'_>) -> Response {
        let headers = frame.headers.iter();
        Response {
            status: frame.status,
            headers: headers
                .map(|(n, v)| (n.to_string(), v.to_string()))
                .collect(),
            body: frame.body.to_vec(),
        }
    }
}

fn http_error(code: &str, message: &str) -> Error {
    let status = match code {
        "denied" => Status::PermissionDenied,
        "invalid_request" => Status::InvalidArgument,
        "read_only" | "too_many_redirects" => Status::FailedPrecondition,
        "timeout" => Status::DeadlineExceeded,
        "too_large" => Status::ResourceExhausted,
        _ => Status::Unavailable,
    };
    Error::new(
        status,
        format!("http_{code}"),
        format!("HTTP request: {message}"),
    )
}
