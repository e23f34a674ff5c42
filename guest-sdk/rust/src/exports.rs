//! What the exports of a module do.

use crate::context::Level;
use crate::host::Host;
use crate::turn::{Memory, Module};
use crate::wasm::Imports;
use std::alloc::Layout;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Once;

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::new(Memory::default());
    static HOST: Rc<dyn Host> = Rc::new(Imports);
}

/// The level of slog's errors.
const LEVEL_ERROR: i32 = 8;

/// Wasm has no standard error, so a panic's message goes to the actor's log
/// before the trap.
fn log_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| Imports.log(LEVEL_ERROR, &info.to_string())));
    });
}

/// What the crate's `println!` and `eprintln!` do.
#[doc(hidden)]
pub fn print(level: Level, text: std::fmt::Arguments<'_>) {
    Imports.log(level as i32, &text.to_string());
}

/// What `greenroom_alloc` does. The block is never freed: it belongs to the
/// host, which keeps it for the frames of later turns.
#[doc(hidden)]
pub fn alloc(size: u32) -> u32 {
    match Layout::from_size_align((size as usize).max(8), 8) {
        // SAFETY: the layout's size is not zero.
        Ok(layout) => unsafe { std::alloc::alloc(layout) as u32 },
        Err(_) => 0,
    }
}

/// What `greenroom_manifest` does.
#[doc(hidden)]
pub fn manifest(module: &Module) -> i64 {
    log_panics();
    MEMORY.with(|memory| memory.borrow_mut().prepare());
    HOST.with(|_| {});
    // Leaked: the host reads it after this returns, and asks once.
    let text: &'static str = Box::leak(module.manifest().into_boxed_str());
    (text.as_ptr() as i64) << 32 | text.len() as i64
}

/// What `greenroom_turn` does.
///
/// # Safety
///
/// `len` bytes at `ptr` must be readable and stay as they are until it returns:
/// section 1 of the ABI says that the host sees to it.
#[doc(hidden)]
pub unsafe fn turn(module: &Module, ptr: u32, len: u32) -> i32 {
    log_panics();
    let frame = std::slice::from_raw_parts(ptr as *const u8, len as usize);
    MEMORY.with(|memory| HOST.with(|host| module.turn(memory, host, frame)))
}
