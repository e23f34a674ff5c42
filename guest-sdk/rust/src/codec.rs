//! The frames of `abi/SPEC.md` section 4: what the host sends for a turn, what
//! the guest sends back for an error, calls of other actors with their results,
//! and HTTP requests with their answers.
//!
//! You need this module only to speak the ABI without the rest of the SDK. It
//! passes the vectors in `abi/testdata/vectors`, as the Go codec does.

use crate::text;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The ABI version that this SDK speaks.
pub const VERSION: u8 = 1;

/// The longest application code of an error, in bytes.
pub const MAX_ERROR_CODE: usize = 128;
/// The longest message of an error, in bytes.
pub const MAX_ERROR_MESSAGE: usize = 4096;
/// The largest detail of an error, in bytes.
pub const MAX_ERROR_DETAIL: usize = 64 << 10;
/// The longest key of the state, in bytes.
pub const MAX_STATE_KEY: usize = 512;

/// Asks for a method.
pub const WHAT_METHOD: u8 = 1;
/// Asks for the state to be migrated to the module's schema.
pub const WHAT_MIGRATE: u8 = 2;
/// A bit of [`TurnFrame::flags`]: the turn may not change anything.
pub const FLAG_READ_ONLY: u32 = 1;

const KIND_TURN: u8 = 1;
const KIND_ERROR: u8 = 2;
const KIND_HTTP_REQUEST: u8 = 3;
const KIND_HTTP_RESPONSE: u8 = 4;
const KIND_MESSAGE: u8 = 5;
const KIND_RESULT: u8 = 6;
const KIND_REMINDER: u8 = 7;

/// [`TurnFrame::cause`] of a call from outside.
pub const CAUSE_OUTSIDE: u8 = 0;
/// [`TurnFrame::cause`] of a call of another actor.
pub const CAUSE_CALL: u8 = 1;
/// [`TurnFrame::cause`] of a message.
pub const CAUSE_MESSAGE: u8 = 2;
/// [`TurnFrame::cause`] of an event of an actor that this one subscribes to.
pub const CAUSE_EVENT: u8 = 5;
/// [`TurnFrame::cause`] of a message that comes back to its sender: nobody consumed it.
pub const CAUSE_UNDELIVERED: u8 = 6;
/// The end of a watch of a host.
pub const CAUSE_DISCONNECTED: u8 = 7;
/// Who stands for services that the actor watches.
pub const CAUSE_SERVICES: u8 = 8;
/// [`TurnFrame::cause`] of a reminder's firing.
pub const CAUSE_REMINDER: u8 = 3;
/// [`TurnFrame::cause`] of a timer's firing.
pub const CAUSE_TIMER: u8 = 4;
/// A bit of [`ReminderFrame::flags`]: one of that name that is there stays as it is.
pub const FLAG_KEEP: u32 = 1;

/// A bit of [`MessageFrame::flags`]: the call is in the caller's transaction, or fails
/// before it has run.
pub const FLAG_ATOMIC: u32 = 1;
/// A bit of [`MessageFrame::flags`]: the message is not stored.
pub const FLAG_VOLATILE: u32 = 2;
/// Of a volatile child: it shares its parent's mailbox.
pub const FLAG_CHILD_SHARED: u32 = 1;
/// A bit of [`ResultFrame::flags`]: the turn was committed on its own.
pub const FLAG_COMMITTED: u32 = 1;

/// The most headers of a request or a response.
pub const MAX_HEADERS: usize = 128;
/// A bit of [`HttpRequestFrame::flags`]: a redirect is answered as it is.
pub const FLAG_NO_REDIRECTS: u32 = 1;

/// A turn, host to guest. Texts and payload alias the frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnFrame<'a> {
    /// [`WHAT_METHOD`] or [`WHAT_MIGRATE`].
    pub what: u8,
    /// [`FLAG_READ_ONLY`]; a reader ignores bits that it does not know.
    pub flags: u32,
    /// The app that the actor belongs to.
    pub app: &'a str,
    /// The actor's type.
    pub actor_type: &'a str,
    /// The actor's ID.
    pub id: &'a str,
    /// The method; empty for a migration.
    pub method: &'a str,
    /// Names this call.
    pub invocation_id: &'a str,
    /// When the turn began, in nanoseconds since 1970 UTC.
    pub time_unix_nano: i64,
    /// The revision of the state that the turn sees.
    pub revision: u64,
    /// The schema that the stored state was written under; for a migration.
    pub stored_schema: u32,
    /// The content type of the payload; empty means JSON.
    pub content_type: &'a str,
    /// What the caller sent.
    pub payload: &'a [u8],
    /// [`CAUSE_OUTSIDE`], [`CAUSE_CALL`], [`CAUSE_MESSAGE`], [`CAUSE_REMINDER`],
    /// [`CAUSE_TIMER`], [`CAUSE_EVENT`], [`CAUSE_UNDELIVERED`], [`CAUSE_DISCONNECTED`] or
    /// [`CAUSE_SERVICES`].
    pub cause: u8,
    /// The type of the actor that calls, that sent the message or that published the event; of
    /// an undelivered message, of the one that did not consume it.
    pub caller_type: &'a str,
    /// Its ID.
    pub caller_id: &'a str,
    /// The name of the reminder, timer or event.
    pub cause_name: &'a str,
    /// The occurrence that is delivered, or when the message was sent or the event published, in
    /// nanoseconds since 1970 UTC.
    pub due_unix_nano: i64,
    /// Which delivery of it this is, from 1 on.
    pub attempt: u32,
    /// For how many further occurrences it stands.
    pub missed: u32,
    /// What the reminder carries beside its payload.
    pub metadata: Vec<(&'a str, &'a str)>,
    /// The sender's own number of a message.
    pub cookie: u64,
    /// The set of methods that the actor accepts; empty: all.
    pub method_set: &'a str,
    /// The code of the last failure of an undelivered message, or why there is no event.
    pub failed: &'a str,
    /// The type of the actor that sent the message on the caller's behalf; empty: the caller
    /// itself.
    pub by_type: &'a str,
    /// Its ID.
    pub by_id: &'a str,
}

/// A reminder, both ways: `abi/SPEC.md` section 4 says what the fields mean. Times are
/// nanoseconds since 1970 UTC, durations nanoseconds. It aliases the frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ReminderFrame<'a> {
    pub name: &'a str,
    pub method: &'a str,
    pub content_type: &'a str,
    pub payload: &'a [u8],
    pub due_unix_nano: i64,
    pub period_nano: i64,
    pub cron: &'a str,
    pub zone: &'a str,
    pub count: u32,
    pub until_unix_nano: i64,
    pub missed: u8,
    pub attempts: u32,
    pub metadata: Vec<(&'a str, &'a str)>,
    pub delay_nano: i64,
    pub jitter_nano: i64,
    pub missed_limit: u32,
    pub missed_after_nano: i64,
    pub failure: u8,
    pub interval_nano: i64,
    pub longest_interval_nano: i64,
    /// [`FLAG_KEEP`].
    pub flags: u32,
}

/// An error, guest to host. Texts and detail alias the frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorFrame<'a> {
    /// A gRPC code number, 1 to 16.
    pub status: u16,
    /// The application's name for the error.
    pub code: &'a str,
    /// What it says to people.
    pub message: &'a str,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// The content type of the detail.
    pub detail_content_type: &'a str,
    /// Data for programs.
    pub detail: &'a [u8],
    /// How long to wait before the same call, in milliseconds; 0: not said. It
    /// counts only with `retryable`.
    pub retry_after_millis: u32,
}

/// An HTTP request, guest to host. Texts and body alias the frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRequestFrame<'a> {
    /// Empty means GET.
    pub method: &'a str,
    /// Where it goes.
    pub url: &'a str,
    /// Names and values.
    pub headers: Vec<(&'a str, &'a str)>,
    /// What it carries.
    pub body: &'a [u8],
    /// The longest that it may take, in milliseconds; 0: as long as the turn.
    pub timeout_millis: u32,
    /// [`FLAG_NO_REDIRECTS`].
    pub flags: u32,
}

/// The answer to an HTTP request, or why there is none. It aliases the frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpResponseFrame<'a> {
    /// 0: there is no answer, and `code` says why.
    pub status: u16,
    /// Names, in lower case, and values.
    pub headers: Vec<(&'a str, &'a str)>,
    /// What it carries.
    pub body: &'a [u8],
    /// A code of `abi/SPEC.md` section 6.
    pub code: &'a str,
    /// The same for people.
    pub message: &'a str,
}

/// A call of another actor or a message to one, guest to host. Texts and payload alias the
/// frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageFrame<'a> {
    /// The type of the callee.
    pub actor_type: &'a str,
    /// The ID of the callee.
    pub id: &'a str,
    /// Its method.
    pub method: &'a str,
    /// The service that is called, instead of the type and the ID.
    pub service: &'a str,
    /// The content type of the payload; empty means JSON.
    pub content_type: &'a str,
    /// The input of the method.
    pub payload: &'a [u8],
    /// [`FLAG_ATOMIC`] and [`FLAG_VOLATILE`]; others are kept for what is to come.
    pub flags: u32,
    /// The longest that a call may take, in milliseconds; 0: as long as the turn.
    pub limit_millis: u32,
    /// When a message is delivered, in nanoseconds since 1970 UTC; 0: after its delay.
    pub due_unix_nano: i64,
    /// The method of the sender that gets the message back if nobody consumes it.
    pub undelivered: &'a str,
    /// The sender's own number of a message.
    pub cookie: u64,
    pub channel: u32,
    /// How long after it was sent a message is delivered, in nanoseconds.
    pub delay_nano: i64,
    /// The type of the actor that gets the message if nobody consumes it; empty: none.
    pub forward_type: &'a str,
    /// Its ID.
    pub forward_id: &'a str,
    /// The type of the actor on whose behalf it is sent; empty: the sender itself.
    pub on_behalf_type: &'a str,
    /// Its ID.
    pub on_behalf_id: &'a str,
}

/// The reply to a call, or why there is none. It aliases the frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultFrame<'a> {
    /// Why there is no reply; its status is 0 if there is one, and nothing else is set.
    pub error: ErrorFrame<'a>,
    /// The content type of the reply; empty means JSON.
    pub content_type: &'a str,
    /// The reply.
    pub payload: &'a [u8],
    /// [`FLAG_COMMITTED`]; others are kept for what is to come.
    pub flags: u32,
}

/// A frame that breaks the specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameError {
    /// What was decoded: "turn frame", "error frame", "key list".
    pub frame: &'static str,
    /// The byte at which the faulty part begins.
    pub offset: usize,
    /// What is wrong there.
    pub problem: String,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, byte {}: {}", self.frame, self.offset, self.problem)
    }
}

impl std::error::Error for FrameError {}

/// Encodes a turn; what is zero or empty is left out.
#[must_use]
pub fn encode_turn(turn: &TurnFrame<'_>) -> Vec<u8> {
    let mut w = Writer::new(KIND_TURN);
    w.number(1, &[turn.what]);
    w.number(2, &turn.flags.to_le_bytes());
    w.bytes(3, turn.app.as_bytes());
    w.bytes(4, turn.actor_type.as_bytes());
    w.bytes(5, turn.id.as_bytes());
    w.bytes(6, turn.method.as_bytes());
    w.bytes(7, turn.invocation_id.as_bytes());
    w.number(8, &turn.time_unix_nano.to_le_bytes());
    w.number(9, &turn.revision.to_le_bytes());
    w.number(10, &turn.stored_schema.to_le_bytes());
    w.bytes(11, turn.content_type.as_bytes());
    w.bytes(12, turn.payload);
    w.number(13, &[turn.cause]);
    w.bytes(14, turn.caller_type.as_bytes());
    w.bytes(15, turn.caller_id.as_bytes());
    w.bytes(16, turn.cause_name.as_bytes());
    w.number(17, &turn.due_unix_nano.to_le_bytes());
    w.number(18, &turn.attempt.to_le_bytes());
    w.number(19, &turn.missed.to_le_bytes());
    w.number(20, &turn.cookie.to_le_bytes());
    w.bytes(21, turn.method_set.as_bytes());
    w.bytes(22, turn.failed.as_bytes());
    w.bytes(23, &headers(&turn.metadata));
    w.bytes(24, turn.by_type.as_bytes());
    w.bytes(25, turn.by_id.as_bytes());
    w.0
}

/// Decodes a turn.
///
/// # Errors
///
/// The frame is not well formed; it says where and why.
pub fn decode_turn(frame: &[u8]) -> Result<TurnFrame<'_>, FrameError> {
    let mut turn = TurnFrame::default();
    read_turn(frame, &mut turn)?;
    Ok(turn)
}

/// Decodes a turn into one that is empty.
pub(crate) fn read_turn<'a>(frame: &'a [u8], turn: &mut TurnFrame<'a>) -> Result<(), FrameError> {
    let mut r = Reader::new("turn frame", KIND_TURN, frame)?;
    while let Some((tag, value)) = r.next()? {
        match tag {
            1 => turn.what = u8::from_le_bytes(r.number(value)?),
            2 => turn.flags = u32::from_le_bytes(r.number(value)?),
            3 => turn.app = r.text(value)?,
            4 => turn.actor_type = r.text(value)?,
            5 => turn.id = r.text(value)?,
            6 => turn.method = r.text(value)?,
            7 => turn.invocation_id = r.text(value)?,
            8 => turn.time_unix_nano = i64::from_le_bytes(r.number(value)?),
            9 => turn.revision = u64::from_le_bytes(r.number(value)?),
            10 => turn.stored_schema = u32::from_le_bytes(r.number(value)?),
            11 => turn.content_type = r.text(value)?,
            12 => turn.payload = value,
            13 => turn.cause = u8::from_le_bytes(r.number(value)?),
            14 => turn.caller_type = r.text(value)?,
            15 => turn.caller_id = r.text(value)?,
            16 => turn.cause_name = r.text(value)?,
            17 => turn.due_unix_nano = i64::from_le_bytes(r.number(value)?),
            18 => turn.attempt = u32::from_le_bytes(r.number(value)?),
            19 => turn.missed = u32::from_le_bytes(r.number(value)?),
            20 => turn.cookie = u64::from_le_bytes(r.number(value)?),
            21 => turn.method_set = r.text(value)?,
            22 => turn.failed = r.text(value)?,
            23 => turn.metadata = r.headers(value)?,
            24 => turn.by_type = r.text(value)?,
            25 => turn.by_id = r.text(value)?,
            _ => {}
        }
    }
    Ok(())
}

/// Encodes an error; what is zero or empty is left out.
#[must_use]
pub fn encode_error(error: &ErrorFrame<'_>) -> Vec<u8> {
    let mut w = Writer::new(KIND_ERROR);
    error_fields(&mut w, error, 0);
    w.0
}

/// Writes an error, or a result with its `flags`.
fn error_fields(w: &mut Writer, error: &ErrorFrame<'_>, flags: u32) {
    w.number(1, &error.status.to_le_bytes());
    w.bytes(2, error.code.as_bytes());
    w.bytes(3, error.message.as_bytes());
    w.number(4, &[u8::from(error.retryable)]);
    w.bytes(5, error.detail_content_type.as_bytes());
    w.bytes(6, error.detail);
    w.number(7, &flags.to_le_bytes());
    w.number(8, &error.retry_after_millis.to_le_bytes());
}

/// Decodes an error as a host reads it: an unknown status becomes 2, a text
/// beyond its limit is cut.
///
/// # Errors
///
/// The frame is not well formed, or the detail is beyond its limit.
pub fn decode_error(frame: &[u8]) -> Result<ErrorFrame<'_>, FrameError> {
    let mut r = Reader::new("error frame", KIND_ERROR, frame)?;
    let mut error = ErrorFrame::default();
    while let Some((tag, value)) = r.next()? {
        match tag {
            1 => error.status = u16::from_le_bytes(r.number(value)?),
            2 => error.code = cut(r.text(value)?, MAX_ERROR_CODE),
            3 => error.message = cut(r.text(value)?, MAX_ERROR_MESSAGE),
            4 => error.retryable = r.number::<1>(value)? == [1],
            5 => error.detail_content_type = r.text(value)?,
            6 if value.len() > MAX_ERROR_DETAIL => {
                return Err(r.fail(format!(
                    "the detail has {} bytes; at most {MAX_ERROR_DETAIL} are allowed",
                    value.len()
                )))
            }
            6 => error.detail = value,
            8 => error.retry_after_millis = u32::from_le_bytes(r.number(value)?),
            _ => {}
        }
    }
    if !(1..=16).contains(&error.status) {
        error.status = 2;
    }
    if !error.retryable {
        error.retry_after_millis = 0;
    }
    Ok(error)
}

/// Encodes a call or a message; what is zero or empty is left out.
#[must_use]
pub fn encode_message(message: &MessageFrame<'_>) -> Vec<u8> {
    let mut w = Writer::new(KIND_MESSAGE);
    w.bytes(1, message.actor_type.as_bytes());
    w.bytes(2, message.id.as_bytes());
    w.bytes(3, message.method.as_bytes());
    w.bytes(4, message.service.as_bytes());
    w.bytes(5, message.content_type.as_bytes());
    w.bytes(6, message.payload);
    w.number(7, &message.flags.to_le_bytes());
    w.number(8, &message.limit_millis.to_le_bytes());
    w.number(9, &message.due_unix_nano.to_le_bytes());
    w.bytes(10, message.undelivered.as_bytes());
    w.number(11, &message.cookie.to_le_bytes());
    w.number(12, &message.channel.to_le_bytes());
    w.number(13, &message.delay_nano.to_le_bytes()); // 12 is kept for what is to come
    w.bytes(14, message.forward_type.as_bytes());
    w.bytes(15, message.forward_id.as_bytes());
    w.bytes(16, message.on_behalf_type.as_bytes());
    w.bytes(17, message.on_behalf_id.as_bytes());
    w.0
}

/// Decodes a call or a message.
///
/// # Errors
///
/// The frame is not well formed.
pub fn decode_message(frame: &[u8]) -> Result<MessageFrame<'_>, FrameError> {
    let mut r = Reader::new("message frame", KIND_MESSAGE, frame)?;
    let mut message = MessageFrame::default();
    while let Some((tag, value)) = r.next()? {
        match tag {
            1 => message.actor_type = r.text(value)?,
            2 => message.id = r.text(value)?,
            3 => message.method = r.text(value)?,
            4 => message.service = r.text(value)?,
            5 => message.content_type = r.text(value)?,
            6 => message.payload = value,
            7 => message.flags = u32::from_le_bytes(r.number(value)?),
            8 => message.limit_millis = u32::from_le_bytes(r.number(value)?),
            9 => message.due_unix_nano = i64::from_le_bytes(r.number(value)?),
            10 => message.undelivered = r.text(value)?,
            11 => message.cookie = u64::from_le_bytes(r.number(value)?),
            12 => message.channel = u32::from_le_bytes(r.number(value)?),
            13 => message.delay_nano = i64::from_le_bytes(r.number(value)?),
            14 => message.forward_type = r.text(value)?,
            15 => message.forward_id = r.text(value)?,
            16 => message.on_behalf_type = r.text(value)?,
            17 => message.on_behalf_id = r.text(value)?,
            _ => {}
        }
    }
    Ok(message)
}

/// Encodes the result of a call; what is zero or empty is left out.
#[must_use]
pub fn encode_result(result: &ResultFrame<'_>) -> Vec<u8> {
    let mut w = Writer::new(KIND_RESULT);
    let mut error = result.error.clone();
    if error.status == 0 {
        error.detail_content_type = result.content_type;
        error.detail = result.payload;
    }
    error_fields(&mut w, &error, result.flags);
    w.0
}

/// Decodes the result of a call.
///
/// # Errors
///
/// The frame is not well formed.
pub fn decode_result(frame: &[u8]) -> Result<ResultFrame<'_>, FrameError> {
    let mut r = Reader::new("result frame", KIND_RESULT, frame)?;
    let mut error = ErrorFrame::default();
    let mut flags = 0;
    while let Some((tag, value)) = r.next()? {
        match tag {
            1 => error.status = u16::from_le_bytes(r.number(value)?),
            2 => error.code = r.text(value)?,
            3 => error.message = r.text(value)?,
            4 => error.retryable = r.number::<1>(value)? == [1],
            5 => error.detail_content_type = r.text(value)?,
            6 => error.detail = value,
            7 => flags = u32::from_le_bytes(r.number(value)?),
            8 => error.retry_after_millis = u32::from_le_bytes(r.number(value)?),
            _ => {}
        }
    }
    if error.status == 0 {
        return Ok(ResultFrame {
            error: ErrorFrame::default(),
            content_type: error.detail_content_type,
            payload: error.detail,
            flags,
        });
    }
    Ok(ResultFrame {
        error,
        flags,
        ..ResultFrame::default()
    })
}

/// Encodes an HTTP request; what is zero or empty is left out.
#[must_use]
pub fn encode_http_request(request: &HttpRequestFrame<'_>) -> Vec<u8> {
    let mut w = Writer::new(KIND_HTTP_REQUEST);
    w.bytes(1, request.method.as_bytes());
    w.bytes(2, request.url.as_bytes());
    w.bytes(3, &headers(&request.headers));
    w.bytes(4, request.body);
    w.number(5, &request.timeout_millis.to_le_bytes());
    w.number(6, &request.flags.to_le_bytes());
    w.0
}

/// Decodes an HTTP request.
///
/// # Errors
///
/// The frame is not well formed.
pub fn decode_http_request(frame: &[u8]) -> Result<HttpRequestFrame<'_>, FrameError> {
    let mut r = Reader::new("request frame", KIND_HTTP_REQUEST, frame)?;
    let mut request = HttpRequestFrame::default();
    while let Some((tag, value)) = r.next()? {
        match tag {
            1 => request.method = r.text(value)?,
            2 => request.url = r.text(value)?,
            3 => request.headers = r.headers(value)?,
            4 => request.body = value,
            5 => request.timeout_millis = u32::from_le_bytes(r.number(value)?),
            6 => request.flags = u32::from_le_bytes(r.number(value)?),
            _ => {}
        }
    }
    Ok(request)
}

/// Encodes the answer to an HTTP request; what is zero or empty is left out.
#[must_use]
pub fn encode_http_response(response: &HttpResponseFrame<'_>) -> Vec<u8> {
    let mut w = Writer::new(KIND_HTTP_RESPONSE);
    w.number(1, &response.status.to_le_bytes());
    w.bytes(2, &headers(&response.headers));
    w.bytes(3, response.body);
    w.bytes(4, response.code.as_bytes());
    w.bytes(5, response.message.as_bytes());
    w.0
}

/// Decodes the answer to an HTTP request.
///
/// # Errors
///
/// The frame is not well formed.
pub fn decode_http_response(frame: &[u8]) -> Result<HttpResponseFrame<'_>, FrameError> {
    let mut r = Reader::new("response frame", KIND_HTTP_RESPONSE, frame)?;
    let mut response = HttpResponseFrame::default();
    while let Some((tag, value)) = r.next()? {
        match tag {
            1 => response.status = u16::from_le_bytes(r.number(value)?),
            2 => response.headers = r.headers(value)?,
            3 => response.body = value,
            4 => response.code = r.text(value)?,
            5 => response.message = r.text(value)?,
            _ => {}
        }
    }
    Ok(response)
}

/// Encodes a reminder; what is zero or empty is left out.
#[must_use]
pub fn encode_reminder(reminder: &ReminderFrame<'_>) -> Vec<u8> {
    let mut w = Writer::new(KIND_REMINDER);
    w.bytes(1, reminder.name.as_bytes());
    w.bytes(2, reminder.method.as_bytes());
    w.bytes(3, reminder.content_type.as_bytes());
    w.bytes(4, reminder.payload);
    w.number(5, &reminder.due_unix_nano.to_le_bytes());
    w.number(6, &reminder.period_nano.to_le_bytes());
    w.bytes(7, reminder.cron.as_bytes());
    w.bytes(8, reminder.zone.as_bytes());
    w.number(9, &reminder.count.to_le_bytes());
    w.number(10, &reminder.until_unix_nano.to_le_bytes());
    w.number(11, &[reminder.missed]);
    w.number(12, &reminder.attempts.to_le_bytes());
    w.bytes(13, &headers(&reminder.metadata));
    w.number(14, &reminder.delay_nano.to_le_bytes());
    w.number(15, &reminder.jitter_nano.to_le_bytes());
    w.number(16, &reminder.missed_limit.to_le_bytes());
    w.number(17, &reminder.missed_after_nano.to_le_bytes());
    w.number(18, &[reminder.failure]);
    w.number(19, &reminder.interval_nano.to_le_bytes());
    w.number(20, &reminder.longest_interval_nano.to_le_bytes());
    w.number(21, &reminder.flags.to_le_bytes());
    w.0
}

/// Decodes a reminder.
///
/// # Errors
///
/// The frame is not well formed.
pub fn decode_reminder(frame: &[u8]) -> Result<ReminderFrame<'_>, FrameError> {
    let mut r = Reader::new("reminder frame", KIND_REMINDER, frame)?;
    let mut reminder = ReminderFrame::default();
    while let Some((tag, value)) = r.next()? {
        match tag {
            1 => reminder.name = r.text(value)?,
            2 => reminder.method = r.text(value)?,
            3 => reminder.content_type = r.text(value)?,
            4 => reminder.payload = value,
            5 => reminder.due_unix_nano = i64::from_le_bytes(r.number(value)?),
            6 => reminder.period_nano = i64::from_le_bytes(r.number(value)?),
            7 => reminder.cron = r.text(value)?,
            8 => reminder.zone = r.text(value)?,
            9 => reminder.count = u32::from_le_bytes(r.number(value)?),
            10 => reminder.until_unix_nano = i64::from_le_bytes(r.number(value)?),
            11 => reminder.missed = u8::from_le_bytes(r.number(value)?),
            12 => reminder.attempts = u32::from_le_bytes(r.number(value)?),
            13 => reminder.metadata = r.headers(value)?,
            14 => reminder.delay_nano = i64::from_le_bytes(r.number(value)?),
            15 => reminder.jitter_nano = i64::from_le_bytes(r.number(value)?),
            16 => reminder.missed_limit = u32::from_le_bytes(r.number(value)?),
            17 => reminder.missed_after_nano = i64::from_le_bytes(r.number(value)?),
            18 => reminder.failure = u8::from_le_bytes(r.number(value)?),
            19 => reminder.interval_nano = i64::from_le_bytes(r.number(value)?),
            20 => reminder.longest_interval_nano = i64::from_le_bytes(r.number(value)?),
            21 => reminder.flags = u32::from_le_bytes(r.number(value)?),
            _ => {}
        }
    }
    Ok(reminder)
}

fn headers(list: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for text in list.iter().flat_map(|(name, value)| [name, value]) {
        out.extend_from_slice(&length(text.as_bytes()));
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// The time that a frame gives in nanoseconds since 1970.
pub(crate) fn time(nanos: i64) -> SystemTime {
    let since = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 {
        UNIX_EPOCH - since
    } else {
        UNIX_EPOCH + since
    }
}

/// The longest prefix of `text` that has at most `limit` bytes and ends between
/// two characters.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Encodes a key list. The keys must be in ascending byte order.
#[must_use]
pub fn encode_key_list<'k>(keys: impl IntoIterator<Item = &'k str>) -> Vec<u8> {
    let mut list = Vec::new();
    for key in keys {
        list.extend_from_slice(&length(key.as_bytes()));
        list.extend_from_slice(key.as_bytes());
    }
    list
}

/// Decodes a key list.
///
/// # Errors
///
/// It is not well formed: a length that lies, a key that is empty, too long, not
/// UTF-8 or out of order.
pub fn decode_key_list(list: &[u8]) -> Result<Vec<&str>, FrameError> {
    let mut keys: Vec<&str> = Vec::new();
    let mut pos = 0;
    while pos < list.len() {
        let fail = |problem: String| FrameError {
            frame: "key list",
            offset: pos,
            problem,
        };
        let rest = &list[pos..];
        let (size, rest) =
            split_u32(rest).ok_or_else(|| fail("ends inside a length".to_string()))?;
        if size == 0 {
            return Err(fail("an empty key".to_string()));
        }
        if size as usize > MAX_STATE_KEY {
            return Err(fail(format!(
                "a key of {size} bytes; at most {MAX_STATE_KEY} are allowed"
            )));
        }
        let key = rest
            .get(..size as usize)
            .ok_or_else(|| fail(format!("a key of {size} bytes, {} are left", rest.len())))?;
        let key =
            std::str::from_utf8(key).map_err(|_| fail("a key that is not UTF-8".to_string()))?;
        if keys.last().map_or(false, |last| *last >= key) {
            return Err(fail(
                "a key that does not come after the one before it".to_string(),
            ));
        }
        keys.push(key);
        pos += 4 + size as usize;
    }
    Ok(keys)
}

fn split_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let head = bytes.get(..4)?;
    Some((
        u32::from_le_bytes([head[0], head[1], head[2], head[3]]),
        &bytes[4..],
    ))
}

// A frame is in the guest's memory, so its parts are below 4 GiB.
fn length(bytes: &[u8]) -> [u8; 4] {
    (bytes.len() as u32).to_le_bytes()
}

/// Writes a field list.
struct Writer(Vec<u8>);

impl Writer {
    fn new(kind: u8) -> Writer {
        Writer(vec![VERSION, kind])
    }

    fn bytes(&mut self, tag: u16, value: &[u8]) {
        if !value.is_empty() {
            self.0.extend_from_slice(&tag.to_le_bytes());
            self.0.extend_from_slice(&length(value));
            self.0.extend_from_slice(value);
        }
    }

    fn number(&mut self, tag: u16, value: &[u8]) {
        if value.iter().any(|b| *b != 0) {
            self.bytes(tag, value);
        }
    }
}

/// Reads a field list. It holds every rule that does not depend on what the
/// fields mean, so that all frames are equally strict.
struct Reader<'a> {
    name: &'static str,
    frame: &'a [u8],
    /// Where the next field begins.
    pos: usize,
    /// Where the field began that `next` returned last, and its tag.
    start: usize,
    last: u16,
}

impl<'a> Reader<'a> {
    fn new(name: &'static str, kind: u8, frame: &'a [u8]) -> Result<Reader<'a>, FrameError> {
        let mut r = Reader {
            name,
            frame,
            pos: 2,
            start: 0,
            last: 0,
        };
        if frame.len() < 2 {
            return Err(r.fail("ends before version and kind"));
        }
        if frame[0] != VERSION {
            return Err(r.fail(format!("version {}, not {VERSION}", frame[0])));
        }
        if frame[1] != kind {
            r.start = 1;
            return Err(r.fail(format!("kind {}, not {kind}", frame[1])));
        }
        Ok(r)
    }

    #[inline(always)] // an error is large to hand on, and seldom there
    fn next(&mut self) -> Result<Option<(u16, &'a [u8])>, FrameError> {
        let rest = &self.frame[self.pos..];
        if rest.is_empty() {
            return Ok(None);
        }
        self.start = self.pos;
        if rest.len() < 6 {
            return Err(self.fail("ends inside a field's tag and length"));
        }
        let tag = u16::from_le_bytes([rest[0], rest[1]]);
        let size = u32::from_le_bytes([rest[2], rest[3], rest[4], rest[5]]) as usize;
        let rest = &rest[6..];
        if tag == 0 {
            return Err(self.fail("tag 0"));
        }
        if tag <= self.last || size > rest.len() {
            return Err(self.misfit(tag, size, rest.len()));
        }
        self.last = tag;
        self.pos += 6 + size;
        Ok(Some((tag, &rest[..size])))
    }

    #[inline(always)]
    fn number<const N: usize>(&self, value: &[u8]) -> Result<[u8; N], FrameError> {
        <[u8; N]>::try_from(value).map_err(|_| self.width(value.len(), N))
    }

    #[inline(always)]
    fn text(&self, value: &'a [u8]) -> Result<&'a str, FrameError> {
        text::utf8(value).map_err(|_| self.not_text())
    }

    fn headers(&self, mut rest: &'a [u8]) -> Result<Vec<(&'a str, &'a str)>, FrameError> {
        let mut list = Vec::new();
        while !rest.is_empty() {
            if list.len() == MAX_HEADERS {
                let tag = self.last;
                return Err(self.fail(format!("tag {tag} has more than {MAX_HEADERS} headers")));
            }
            let name = self.header_text(&mut rest)?;
            let value = self.header_text(&mut rest)?;
            if name.is_empty() {
                return Err(self.fail(format!("tag {} has a header without a name", self.last)));
            }
            list.push((name, value));
        }
        Ok(list)
    }

    fn header_text(&self, rest: &mut &'a [u8]) -> Result<&'a str, FrameError> {
        let early = || self.fail(format!("tag {} ends inside a header", self.last));
        let (size, after) = split_u32(rest).ok_or_else(early)?;
        let text = after.get(..size as usize).ok_or_else(early)?;
        *rest = &after[size as usize..];
        self.text(text)
    }

    #[cold]
    #[inline(never)]
    fn misfit(&self, tag: u16, size: usize, left: usize) -> FrameError {
        if tag == self.last {
            return self.fail(format!("repeats tag {tag}"));
        }
        if tag < self.last {
            return self.fail(format!("tag {tag} after tag {}", self.last));
        }
        self.fail(format!("tag {tag} claims {size} bytes, {left} are left"))
    }

    #[cold]
    #[inline(never)]
    fn width(&self, size: usize, want: usize) -> FrameError {
        self.fail(format!("tag {} has {size} bytes, not {want}", self.last))
    }

    #[cold]
    #[inline(never)]
    fn not_text(&self) -> FrameError {
        self.fail(format!("tag {} is not UTF-8", self.last))
    }

    #[cold]
    #[inline(never)]
    fn fail(&self, problem: impl Into<String>) -> FrameError {
        FrameError {
            frame: self.name,
            offset: self.start,
            problem: problem.into(),
        }
    }
}
