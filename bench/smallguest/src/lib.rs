//! The smallest guest in Rust that does something: a counter straight on the ABI,
//! without the SDK, the standard library and an allocator. What an instance of it
//! takes is what the host takes, and little else.

#![no_std]

use core::cell::UnsafeCell;
use core::panic::PanicInfo;

#[link(wasm_import_module = "greenroom")]
extern "C" {
    fn state_get(key: *const u8, key_len: usize, buf: *mut u8, cap: usize) -> i64;
    fn state_set(key: *const u8, key_len: usize, value: *const u8, len: usize, format: i32) -> i32;
    fn reply(content_type: *const u8, type_len: usize, body: *const u8, len: usize) -> i32;
}

const MANIFEST: &str = r#"{"abi":1,"sdk":"none/1","types":[{"name":"Counter","placement":"sticky","methods":[{"name":"Add"}]}]}"#;
const KEY: &str = "count";
const JSON: &str = "application/json";
const FORMAT_JSON: i32 = 1;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// The host's frame buffer, which this guest does not read.
#[repr(align(8))]
struct Frame(UnsafeCell<[u8; FRAME_BYTES]>);

const FRAME_BYTES: usize = 2048;

// SAFETY: Wasm without threads.
unsafe impl Sync for Frame {}

static FRAME: Frame = Frame(UnsafeCell::new([0; FRAME_BYTES]));

#[no_mangle]
extern "C" fn greenroom_alloc(size: u32) -> u32 {
    if size as usize > FRAME_BYTES {
        return 0;
    }
    FRAME.0.get() as u32
}

#[no_mangle]
extern "C" fn greenroom_manifest() -> i64 {
    (MANIFEST.as_ptr() as i64) << 32 | MANIFEST.len() as i64
}

#[no_mangle]
extern "C" fn greenroom_turn(_: u32, _: u32) -> i32 {
    let mut text = [0; 20];
    // SAFETY: pointers and lengths are of live slices, and the host keeps none.
    let got = unsafe { state_get(KEY.as_ptr(), KEY.len(), text.as_mut_ptr(), text.len()) };
    let stored = if got < 0 { 0 } else { got as u32 as usize };
    let mut count = 1u64;
    let mut scale = 1;
    for digit in text.iter().take(stored).rev() {
        count += u64::from(digit.wrapping_sub(b'0')) * scale;
        scale *= 10;
    }
    let mut at = text.len();
    for place in text.iter_mut().rev() {
        *place = b'0' + (count % 10) as u8;
        count /= 10;
        at -= 1;
        if count == 0 {
            break;
        }
    }
    let (value, len) = (text.as_ptr().wrapping_add(at), text.len() - at);
    // SAFETY: as above.
    unsafe {
        if state_set(KEY.as_ptr(), KEY.len(), value, len, FORMAT_JSON) < 0 {
            return 1;
        }
        reply(JSON.as_ptr(), JSON.len(), value, len);
    }
    0
}
