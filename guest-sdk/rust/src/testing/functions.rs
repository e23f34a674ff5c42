use super::chain::{Chain, Member};
use super::living::Acts;
use super::outside::{given, Outside};
use super::overlay::Overlay;
use super::reminders::TurnReminders;
use crate::codec::{self, ResultFrame};
use crate::context::{Key, Level};
use crate::convert::Payload;
use crate::error::Error;
use crate::host::{Code, Format, Host};
use crate::spec::Capabilities;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A line that an actor wrote to its log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// Who wrote it.
    pub actor: Key,
    /// A [`Level`] as a number.
    pub level: i32,
    /// What it says.
    pub text: String,
}

impl LogLine {
    /// Whether it was written at this level.
    #[must_use]
    pub fn is(&self, level: Level) -> bool {
        self.level == level as i32
    }
}

/// The host's functions during one turn.
pub(super) struct TurnHost {
    pub(super) host: super::Host,
    pub(super) chain: Rc<Chain>,
    pub(super) migrates: bool,
    pub(super) key: Key,
    pub(super) version: u64,
    pub(super) overlay: Rc<RefCell<Overlay>>,
    pub(super) payload_limit: u64,
    pub(super) random: Cell<u64>,
    pub(super) logs: Rc<RefCell<Vec<LogLine>>>,
    pub(super) reply: RefCell<Payload>,
    pub(super) failure: RefCell<Option<Error>>,
    pub(super) uses: Capabilities,
    pub(super) outside: Rc<Outside>,
    pub(super) reminders: Rc<TurnReminders>,
    pub(super) member: Rc<Member>,
}

impl TurnHost {
    fn acts(&self) -> Acts<'_> {
        Acts {
            host: &self.host,
            chain: &self.chain,
            turn: &self.reminders,
            member: &self.member,
            migrates: self.migrates,
        }
    }
}

impl Host for TurnHost {
    fn state_get(&self, key: &str) -> Result<(Format, Vec<u8>), Code> {
        let overlay = self.overlay.borrow();
        let value = overlay.get(key)?;
        Ok((value.format, value.bytes.clone()))
    }

    fn state_set(&self, key: &str, value: &[u8], format: Format) -> Result<(), Code> {
        self.overlay.borrow_mut().set(key, value, format)
    }

    fn state_delete(&self, key: &str) -> Result<bool, Code> {
        self.overlay.borrow_mut().delete(key)
    }

    fn state_delete_all(&self) -> Result<u32, Code> {
        self.overlay.borrow_mut().delete_all()
    }

    fn state_keys(&self, prefix: &str) -> Result<Vec<u8>, Code> {
        self.overlay.borrow().keys(prefix)
    }

    fn state_json(&self, buf: &mut Vec<u8>) -> Result<(), Code> {
        *buf = self.overlay.borrow().json()?;
        Ok(())
    }

    fn state_patch(&self, before: &[u8], after: &[u8]) -> Result<u32, Code> {
        self.overlay.borrow_mut().patch(before, after)
    }

    fn state_version(&self) -> u64 {
        self.version
    }

    fn state_revision(&self) -> u64 {
        self.overlay.borrow().revision
    }

    fn reply(&self, content_type: &str, body: &[u8]) -> Result<(), Code> {
        if body.len() as u64 > self.payload_limit {
            return Err(Code::TOO_LARGE);
        }
        *self.reply.borrow_mut() = Payload::new(content_type, body);
        Ok(())
    }

    fn fail(&self, frame: &[u8]) -> Result<(), Code> {
        let frame = codec::decode_error(frame).map_err(|_| Code::INVALID)?;
        *self.failure.borrow_mut() = Some(Error::from_frame(&frame));
        Ok(())
    }

    fn config_get(&self, name: &str) -> Result<Vec<u8>, Code> {
        given(name, self.uses.config, &self.outside.config.borrow())
    }

    fn secret_get(&self, name: &str) -> Result<Vec<u8>, Code> {
        given(name, self.uses.secrets, &self.outside.secrets.borrow())
    }

    fn http(&self, frame: &[u8]) -> Result<Vec<u8>, Code> {
        let read_only = self.overlay.borrow().read_only;
        self.outside.request(frame, &self.uses, read_only)
    }

    fn reminder_set(&self, frame: &[u8]) -> Result<(), Code> {
        self.reminders.set(frame)
    }

    fn reminder_cancel(&self, name: &str) -> Result<(), Code> {
        self.reminders.cancel(name)
    }

    fn reminder_get(&self, name: &str) -> Result<Vec<u8>, Code> {
        self.reminders.get(name)
    }

    fn reminder_names(&self, prefix: &str) -> Result<Vec<u8>, Code> {
        self.reminders.names(prefix)
    }

    fn timer_set(&self, frame: &[u8]) -> Result<bool, Code> {
        self.reminders.set_timer(frame)
    }

    fn timer_cancel(&self, name: &str) -> Result<bool, Code> {
        self.reminders.cancel_timer(name)
    }

    fn call(&self, frame: &[u8]) -> Result<Vec<u8>, Code> {
        let message = codec::decode_message(frame).map_err(|_| Code::INVALID)?;
        if self.migrates {
            return Err(Code::READ_ONLY);
        }
        let read_only = self.overlay.borrow().read_only;
        Ok(match self.chain.call(&self.host, &message, read_only) {
            Ok((reply, committed)) => codec::encode_result(&ResultFrame {
                content_type: &reply.content_type,
                payload: &reply.body,
                flags: if committed { codec::FLAG_COMMITTED } else { 0 },
                ..ResultFrame::default()
            }),
            Err(error) => codec::encode_result(&ResultFrame {
                error: error.frame(),
                ..ResultFrame::default()
            }),
        })
    }

    fn send(&self, frame: &[u8]) -> Result<(), Code> {
        self.acts().send(frame)
    }

    fn spawn(&self, actor_type: &str) -> Result<String, Code> {
        self.acts().spawn(actor_type)
    }

    fn spawn_child(&self, child: (&str, u32)) -> Result<String, Code> {
        self.acts().spawn_child(child)
    }

    fn become_(&self, set: &str) -> Result<(), Code> {
        self.acts().become_(set)
    }

    fn pass_away(&self) -> Result<(), Code> {
        self.acts().pass_away()
    }

    fn service_claim(&self, name: &str) -> Result<(), Code> {
        self.acts().claim(name)
    }

    fn service_release(&self, name: &str) -> Result<bool, Code> {
        self.acts().release(name)
    }

    fn publish(&self, event: (&str, &Payload)) -> Result<(), Code> {
        self.acts().publish(event)
    }

    fn event_subscribe(&self, subscription: (&str, &str, &str)) -> Result<(), Code> {
        self.acts().subscribe(subscription)
    }

    fn event_unsubscribe(&self, publisher: (&str, &str)) -> Result<bool, Code> {
        self.acts().unsubscribe(publisher)
    }

    fn host_watch(&self, watch: (&str, &str, &str)) -> Result<bool, Code> {
        self.acts().watch(watch)
    }

    fn service_watch(&self, watch: (&str, &str)) -> Result<bool, Code> {
        self.acts().watch_service(watch)
    }

    fn problem(&self) -> String {
        self.reminders.problem.borrow().clone()
    }

    fn random(&self, buf: &mut [u8]) {
        for chunk in buf.chunks_mut(8) {
            let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.random.set(state);
            chunk.copy_from_slice(&mix(state).to_le_bytes()[..chunk.len()]);
        }
    }

    fn log(&self, level: i32, text: &str) {
        self.logs.borrow_mut().push(LogLine {
            actor: self.key.clone(),
            level,
            text: text.to_string(),
        });
    }
}

/// SplitMix64's output function.
pub(super) fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
