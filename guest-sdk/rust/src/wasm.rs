//! The host's functions as imports.

use crate::convert::Payload;
use crate::host::{Code, Format, Host};

mod import {
    #[link(wasm_import_module = "greenroom")]
    extern "C" {
        pub(super) fn state_get(key: *const u8, key_len: usize, buf: *mut u8, cap: usize) -> i64;
        pub(super) fn state_set(
            key: *const u8,
            key_len: usize,
            value: *const u8,
            value_len: usize,
            format: i32,
        ) -> i32;
        pub(super) fn state_delete(key: *const u8, key_len: usize) -> i32;
        pub(super) fn state_delete_all() -> i32;
        pub(super) fn state_keys(
            prefix: *const u8,
            prefix_len: usize,
            buf: *mut u8,
            cap: usize,
        ) -> i64;
        pub(super) fn state_json(buf: *mut u8, cap: usize) -> i64;
        pub(super) fn state_patch(
            before: *const u8,
            before_len: usize,
            after: *const u8,
            after_len: usize,
        ) -> i32;
        pub(super) fn state_version() -> i64;
        pub(super) fn state_revision() -> i64;
        pub(super) fn reply(
            content_type: *const u8,
            content_type_len: usize,
            body: *const u8,
            body_len: usize,
        ) -> i32;
        pub(super) fn fail(frame: *const u8, len: usize) -> i32;
        pub(super) fn random(buf: *mut u8, len: usize) -> i32;
        pub(super) fn log(level: i32, text: *const u8, len: usize) -> i32;
        pub(super) fn config_get(name: *const u8, len: usize, buf: *mut u8, cap: usize) -> i64;
        pub(super) fn secret_get(name: *const u8, len: usize, buf: *mut u8, cap: usize) -> i64;
        pub(super) fn http_request(frame: *const u8, len: usize) -> i64;
        pub(super) fn http_response(buf: *mut u8, cap: usize) -> i64;
        pub(super) fn reminder_set(frame: *const u8, len: usize) -> i32;
        pub(super) fn reminder_cancel(name: *const u8, len: usize) -> i32;
        pub(super) fn reminder_get(name: *const u8, len: usize, buf: *mut u8, cap: usize) -> i64;
        pub(super) fn reminder_names(
            prefix: *const u8,
            prefix_len: usize,
            buf: *mut u8,
            cap: usize,
        ) -> i64;
        pub(super) fn timer_set(frame: *const u8, len: usize) -> i32;
        pub(super) fn timer_cancel(name: *const u8, len: usize) -> i32;
        pub(super) fn call(frame: *const u8, len: usize) -> i64;
        pub(super) fn call_result(buf: *mut u8, cap: usize) -> i64;
        pub(super) fn send(frame: *const u8, len: usize) -> i32;
        pub(super) fn spawn(name: *const u8, len: usize, buf: *mut u8, cap: usize) -> i64;
        pub(super) fn spawn_child(
            name: *const u8,
            len: usize,
            flags: u32,
            buf: *mut u8,
            cap: usize,
        ) -> i64;
        #[link_name = "become"]
        pub(super) fn become_(set: *const u8, len: usize) -> i32;
        pub(super) fn pass_away() -> i32;
        pub(super) fn service_claim(name: *const u8, len: usize) -> i32;
        pub(super) fn service_release(name: *const u8, len: usize) -> i32;
        pub(super) fn event_publish(
            name: *const u8,
            name_len: usize,
            content_type: *const u8,
            content_type_len: usize,
            payload: *const u8,
            payload_len: usize,
        ) -> i32;
        pub(super) fn event_subscribe(
            actor_type: *const u8,
            actor_type_len: usize,
            id: *const u8,
            id_len: usize,
            method: *const u8,
            method_len: usize,
        ) -> i32;
        pub(super) fn event_unsubscribe(
            actor_type: *const u8,
            actor_type_len: usize,
            id: *const u8,
            id_len: usize,
        ) -> i32;
        pub(super) fn host_watch(
            actor_type: *const u8,
            actor_type_len: usize,
            id: *const u8,
            id_len: usize,
            method: *const u8,
            method_len: usize,
        ) -> i32;
        pub(super) fn service_watch(
            name: *const u8,
            name_len: usize,
            method: *const u8,
            method_len: usize,
        ) -> i32;
        pub(super) fn problem(buf: *mut u8, cap: usize) -> i64;
    }
}

// SAFETY, for every call below: pointer and length are of one live slice, or of
// a vector's own buffer of that capacity, and the host keeps neither.

pub(crate) struct Imports;

fn check(result: i32) -> Result<u32, Code> {
    u32::try_from(result).map_err(|_| Code(result))
}

/// Calls a function that fills a buffer until the buffer is large enough.
/// Returns the bits above the length as well.
fn fill(first: usize, call: impl Fn(*mut u8, usize) -> i64) -> Result<(u32, Vec<u8>), Code> {
    let mut buf: Vec<u8> = Vec::with_capacity(first);
    refill(&mut buf, call).map(|high| (high, buf))
}

/// As [`fill`], with a buffer that is there.
fn refill(buf: &mut Vec<u8>, call: impl Fn(*mut u8, usize) -> i64) -> Result<u32, Code> {
    buf.clear();
    loop {
        let result = call(buf.as_mut_ptr(), buf.capacity());
        if result < 0 {
            return Err(Code(result as i32));
        }
        let len = result as u32 as usize;
        if len <= buf.capacity() {
            // SAFETY: the host wrote that many bytes.
            unsafe { buf.set_len(len) };
            return Ok((result >> 32) as u32);
        }
        buf.reserve_exact(len);
    }
}

pub(crate) fn config_get(name: &str) -> Result<Vec<u8>, Code> {
    let get = |buf, cap| unsafe { import::config_get(name.as_ptr(), name.len(), buf, cap) };
    fill(256, get).map(|(_, value)| value)
}

pub(crate) fn secret_get(name: &str) -> Result<Vec<u8>, Code> {
    let get = |buf, cap| unsafe { import::secret_get(name.as_ptr(), name.len(), buf, cap) };
    fill(256, get).map(|(_, value)| value)
}

pub(crate) fn http(frame: &[u8]) -> Result<Vec<u8>, Code> {
    let size = unsafe { import::http_request(frame.as_ptr(), frame.len()) };
    if size < 0 {
        return Err(Code(size as i32));
    }
    let read = |buf, cap| unsafe { import::http_response(buf, cap) };
    fill(size as usize, read).map(|(_, response)| response)
}

pub(crate) fn reminder_set(frame: &[u8]) -> Result<(), Code> {
    check(unsafe { import::reminder_set(frame.as_ptr(), frame.len()) }).map(drop)
}

pub(crate) fn reminder_cancel(name: &str) -> Result<(), Code> {
    check(unsafe { import::reminder_cancel(name.as_ptr(), name.len()) }).map(drop)
}

pub(crate) fn reminder_get(name: &str) -> Result<Vec<u8>, Code> {
    let get = |buf, cap| unsafe { import::reminder_get(name.as_ptr(), name.len(), buf, cap) };
    fill(512, get).map(|(_, frame)| frame)
}

pub(crate) fn reminder_names(prefix: &str) -> Result<Vec<u8>, Code> {
    let get = |buf, cap| unsafe { import::reminder_names(prefix.as_ptr(), prefix.len(), buf, cap) };
    fill(512, get).map(|(_, list)| list)
}

pub(crate) fn timer_set(frame: &[u8]) -> Result<bool, Code> {
    check(unsafe { import::timer_set(frame.as_ptr(), frame.len()) }).map(|n| n == 1)
}

pub(crate) fn timer_cancel(name: &str) -> Result<bool, Code> {
    check(unsafe { import::timer_cancel(name.as_ptr(), name.len()) }).map(|n| n == 1)
}

pub(crate) fn call(frame: &[u8]) -> Result<Vec<u8>, Code> {
    let size = unsafe { import::call(frame.as_ptr(), frame.len()) };
    if size < 0 {
        return Err(Code(size as i32));
    }
    let read = |buf, cap| unsafe { import::call_result(buf, cap) };
    fill(size as usize, read).map(|(_, result)| result)
}

pub(crate) fn send(frame: &[u8]) -> Result<(), Code> {
    check(unsafe { import::send(frame.as_ptr(), frame.len()) }).map(drop)
}

/// As the longest ID of a spawned actor, so that it is asked for once.
const MAX_SPAWNED_ID: usize = 64;

pub(crate) fn spawn(actor_type: &str) -> Result<String, Code> {
    let (name, len) = (actor_type.as_ptr(), actor_type.len());
    let get = |buf, cap| unsafe { import::spawn(name, len, buf, cap) };
    fill(MAX_SPAWNED_ID, get).map(|(_, id)| String::from_utf8_lossy(&id).into_owned())
}

pub(crate) fn spawn_child((actor_type, flags): (&str, u32)) -> Result<String, Code> {
    let (name, len) = (actor_type.as_ptr(), actor_type.len());
    let get = |buf, cap| unsafe { import::spawn_child(name, len, flags, buf, cap) };
    fill(MAX_SPAWNED_ID, get).map(|(_, id)| String::from_utf8_lossy(&id).into_owned())
}

pub(crate) fn publish((name, payload): (&str, &Payload)) -> Result<(), Code> {
    let (content_type, body) = (&payload.content_type, &payload.body);
    check(unsafe {
        import::event_publish(
            name.as_ptr(),
            name.len(),
            content_type.as_ptr(),
            content_type.len(),
            body.as_ptr(),
            body.len(),
        )
    })
    .map(drop)
}

pub(crate) fn event_subscribe((actor_type, id, method): (&str, &str, &str)) -> Result<(), Code> {
    check(unsafe {
        import::event_subscribe(
            actor_type.as_ptr(),
            actor_type.len(),
            id.as_ptr(),
            id.len(),
            method.as_ptr(),
            method.len(),
        )
    })
    .map(drop)
}

pub(crate) fn event_unsubscribe((actor_type, id): (&str, &str)) -> Result<bool, Code> {
    check(unsafe {
        import::event_unsubscribe(actor_type.as_ptr(), actor_type.len(), id.as_ptr(), id.len())
    })
    .map(|n| n == 1)
}

pub(crate) fn become_(set: &str) -> Result<(), Code> {
    check(unsafe { import::become_(set.as_ptr(), set.len()) }).map(drop)
}

pub(crate) fn pass_away() -> Result<(), Code> {
    check(unsafe { import::pass_away() }).map(drop)
}

pub(crate) fn service_claim(name: &str) -> Result<(), Code> {
    check(unsafe { import::service_claim(name.as_ptr(), name.len()) }).map(drop)
}

pub(crate) fn service_release(name: &str) -> Result<bool, Code> {
    check(unsafe { import::service_release(name.as_ptr(), name.len()) }).map(|n| n == 1)
}

pub(crate) fn host_watch((actor_type, id, method): (&str, &str, &str)) -> Result<bool, Code> {
    check(unsafe {
        import::host_watch(
            actor_type.as_ptr(),
            actor_type.len(),
            id.as_ptr(),
            id.len(),
            method.as_ptr(),
            method.len(),
        )
    })
    .map(|n| n == 1)
}

pub(crate) fn service_watch((name, method): (&str, &str)) -> Result<bool, Code> {
    check(unsafe {
        import::service_watch(name.as_ptr(), name.len(), method.as_ptr(), method.len())
    })
    .map(|n| n == 1)
}

pub(crate) fn problem() -> String {
    match fill(256, |buf, cap| unsafe { import::problem(buf, cap) }) {
        Ok((_, text)) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) => "the host refuses it".to_string(),
    }
}

impl Host for Imports {
    fn state_get(&self, key: &str) -> Result<(Format, Vec<u8>), Code> {
        let (high, value) = fill(256, |buf, cap| unsafe {
            import::state_get(key.as_ptr(), key.len(), buf, cap)
        })?;
        let format = if high & 0xff == 1 {
            Format::Json
        } else {
            Format::Bytes
        };
        Ok((format, value))
    }

    fn state_set(&self, key: &str, value: &[u8], format: Format) -> Result<(), Code> {
        let format = match format {
            Format::Bytes => 0,
            Format::Json => 1,
        };
        check(unsafe {
            import::state_set(key.as_ptr(), key.len(), value.as_ptr(), value.len(), format)
        })
        .map(drop)
    }

    fn state_delete(&self, key: &str) -> Result<bool, Code> {
        check(unsafe { import::state_delete(key.as_ptr(), key.len()) }).map(|n| n == 1)
    }

    fn state_delete_all(&self) -> Result<u32, Code> {
        check(unsafe { import::state_delete_all() })
    }

    fn state_keys(&self, prefix: &str) -> Result<Vec<u8>, Code> {
        fill(256, |buf, cap| unsafe {
            import::state_keys(prefix.as_ptr(), prefix.len(), buf, cap)
        })
        .map(|(_, list)| list)
    }

    fn state_json(&self, buf: &mut Vec<u8>) -> Result<(), Code> {
        refill(buf, |at, cap| unsafe { import::state_json(at, cap) }).map(drop)
    }

    fn state_patch(&self, before: &[u8], after: &[u8]) -> Result<u32, Code> {
        check(unsafe {
            import::state_patch(before.as_ptr(), before.len(), after.as_ptr(), after.len())
        })
    }

    fn state_version(&self) -> u64 {
        unsafe { import::state_version() as u64 }
    }

    fn state_revision(&self) -> u64 {
        unsafe { import::state_revision() as u64 }
    }

    fn reply(&self, content_type: &str, body: &[u8]) -> Result<(), Code> {
        check(unsafe {
            import::reply(
                content_type.as_ptr(),
                content_type.len(),
                body.as_ptr(),
                body.len(),
            )
        })
        .map(drop)
    }

    fn fail(&self, frame: &[u8]) -> Result<(), Code> {
        check(unsafe { import::fail(frame.as_ptr(), frame.len()) }).map(drop)
    }

    fn random(&self, buf: &mut [u8]) {
        unsafe { import::random(buf.as_mut_ptr(), buf.len()) };
    }

    fn log(&self, level: i32, text: &str) {
        unsafe { import::log(level, text.as_ptr(), text.len()) };
    }
}
