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
    /// What this SDK does not know.
    Other,
}

/// What brought a turn about; from [`ReadContext::cause`](crate::ReadContext::cause).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cause {
    /// What it was.
    pub kind: CauseKind,
    /// The actor that calls, if one does. The rest is of a firing.
    pub from: Option<Ref>,
    /// The name of the reminder or timer.
    pub name: String,
    /// When it was due; where the firing stands for several times, the first.
    pub due: SystemTime,
    /// 1 the first time that this firing is tried, and always of a timer.
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
                _ => CauseKind::Other,
            },
            from: Some(Ref::new(turn.caller_type, turn.caller_id))
                .filter(|_| turn.cause == codec::CAUSE_CALL),
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
            name: String::new(),
            due: UNIX_EPOCH,
            attempt: 0,
            missed: 0,
            metadata: BTreeMap::new(),
        }
    }
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
