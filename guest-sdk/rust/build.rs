//! Tells the crate what the compiler knows: attributes in the namespace `diagnostic`
//! make its errors say what to do, and are an error themselves in a compiler that is
//! older than the namespace.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC");
    let minor = rustc_minor().unwrap_or(0); // unknown: as if it were old
    for (cfg, since) in [
        ("greenroom_on_unimplemented", 78),
        ("greenroom_do_not_recommend", 85),
    ] {
        if minor >= 80 {
            println!("cargo:rustc-check-cfg=cfg({})", cfg);
        }
        if minor >= since {
            println!("cargo:rustc-cfg={}", cfg);
        }
    }
}

/// The 95 of `rustc 1.95.0 (59807616e 2026-04-14)`.
fn rustc_minor() -> Option<u32> {
    let rustc = env::var_os("RUSTC")?;
    let output = Command::new(rustc).arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    let mut parts = version.strip_prefix("rustc 1.")?.split('.');
    parts.next()?.parse().ok()
}
