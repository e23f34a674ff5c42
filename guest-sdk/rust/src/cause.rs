//! What brings a turn about.

use crate::address::Ref;
use crate::codec::{self, time, TurnFrame};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// What brought a turn about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CauseKind {
    /// A call from outside.
    Call,
    /// A call of another actor.
    Actor,
    /// A firing of a [`Reminder`](crate::Reminder).
    Reminder,
    /// A firing of a [`Timer`](crate::Timer).
    Timer,
    /// A message of another actor, or from outside: [`Message::send`](crate::Message::send).
    Message,
    /// A message of the actor that comes back: nobody consumed it.
    Undelivered,
    /// An event of another actor: [`Context::subscribe`](crate::Context::subscribe).
    Event,
    /// The end of a watch: [`Ref::watch_host`](crate::Ref::watch_host).
    Disconnected,
    /// Who stands for services that the actor watches:
    /// [`Context::watch_service`](crate::Context::watch_service).
    Services,
    /// What this SDK does not know.
    Other,
}

/// What brought a turn about; from [`ReadContext::cause`](crate::ReadContext::cause).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cause {
    /// What it was.
    pub kind: CauseKind,
    /// The actor that calls or that sent the message, if one did. Of an undelivered message
    /// it is the one that did not consume it, of the end of a watch the one whose host was
    /// watched, of an event the one that published it.
    pub from: Option<Ref>,
    /// The actor that sent the message on behalf of `from`, if that is another one.
    pub by: Option<Ref>,
    /// The sender's own number of a message.
    pub cookie: u64,
    /// The code of the last failure of a message that comes back; why a watch has ended,
    /// [`DISCONNECTED`](crate::watch::DISCONNECTED) or [`MOVED`](crate::watch::MOVED); or
    /// [`GONE`](crate::event::GONE), if events were not kept until they could be delivered, or
    /// [`PASSED_AWAY`](crate::event::PASSED_AWAY), if their publisher has passed away.
    pub failed: String,
    /// The name of the reminder, the timer or the event, or the watched one of services.
    pub name: String,
    /// When the firing was due, where it stands for several times, the first; or when the
    /// message was sent or the event published.
    pub due: SystemTime,
    /// 1 the first time that this firing, message or event is tried, and always of a timer.
    pub attempt: u32,
    /// For how many further times the firing stands, and how many were passed over
    /// before it.
    pub missed: u32,
    /// The reminder's metadata.
    pub metadata: BTreeMap<String, String>,
}

impl Cause {
    /// The cause of a turn; `None` for a call from outside.
    pub(crate) fn of(turn: &TurnFrame<'_>) -> Option<Box<Cause>> {
        if turn.cause == codec::CAUSE_OUTSIDE {
            return None;
        }
        let metadata = turn.metadata.iter();
        Some(Box::new(Cause {
            kind: match turn.cause {
                codec::CAUSE_CALL => CauseKind::Actor,
                codec::CAUSE_REMINDER => CauseKind::Reminder,
                codec::CAUSE_TIMER => CauseKind::Timer,
                codec::CAUSE_MESSAGE => CauseKind::Message,
                codec::CAUSE_EVENT => CauseKind::Event,
                codec::CAUSE_UNDELIVERED => CauseKind::Undelivered,
                codec::CAUSE_DISCONNECTED => CauseKind::Disconnected,
                codec::CAUSE_SERVICES => CauseKind::Services,
                _ => CauseKind::Other,
            },
            from: actor(turn.caller_type, turn.caller_id),
            by: actor(turn.by_type, turn.by_id),
            cookie: turn.cookie,
            failed: turn.failed.to_string(),
            name: turn.cause_name.to_string(),
            due: time(turn.due_unix_nano),
            attempt: turn.attempt,
            missed: turn.missed,
            metadata: metadata
                .map(|(n, v)| (n.to_string(), v.to_string()))
                .collect(),
        }))
    }

    pub(crate) fn call() -> Cause {
        Cause {
            kind: CauseKind::Call,
            from: None,
            by: None,
            cookie: 0,
            failed: String::new(),
            name: String::new(),
            due: UNIX_EPOCH,
            attempt: 0,
            missed: 0,
            metadata: BTreeMap::new(),
        }
    }
}

/// `None` without a type.
fn actor(actor_type: &str, id: &str) -> Option<Ref> {
    Some(Ref::new(actor_type, id)).filter(|_| !actor_type.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        for (cause, want) in [
            (codec::CAUSE_OUTSIDE, None),
            (codec::CAUSE_CALL, Some(CauseKind::Actor)),
            (codec::CAUSE_REMINDER, Some(CauseKind::Reminder)),
            (codec::CAUSE_TIMER, Some(CauseKind::Timer)),
            (codec::CAUSE_MESSAGE, Some(CauseKind::Message)),
            (codec::CAUSE_EVENT, Some(CauseKind::Event)),
            (codec::CAUSE_UNDELIVERED, Some(CauseKind::Undelivered)),
            (codec::CAUSE_DISCONNECTED, Some(CauseKind::Disconnected)),
            (codec::CAUSE_SERVICES, Some(CauseKind::Services)),
            (200, Some(CauseKind::Other)),
        ] {
            let turn = TurnFrame {
                cause,
                ..TurnFrame::default()
            };
            assert_eq!(Cause::of(&turn).map(|c| c.kind), want, "{cause}");
        }
    }
}
