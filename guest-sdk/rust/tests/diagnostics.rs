//! What the compiler says of actors that are wrong: those of testdata/diagnostics. The
//! texts are the SDK's, so they hold for every compiler that takes them.

#![cfg(all(feature = "serde", feature = "macros"))]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The first Rust that does not recommend what it is told not to.
const RUST_MINOR: u32 = 85;

#[test]
fn the_compiler_says_what_to_do() {
    if minor() < RUST_MINOR {
        eprintln!("skipped: the texts need Rust 1.{RUST_MINOR}");
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/diagnostics");
    let said = compile(&folder);
    let mut cases = 0;
    for file in std::fs::read_dir(folder.join("examples")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        let source = std::fs::read_to_string(&path).unwrap();
        let said = said.get(&name).unwrap_or_else(|| panic!("{name} compiles"));
        let lines = source.lines().filter_map(|l| l.strip_prefix("// says: "));
        let wanted: Vec<&str> = lines.collect();
        assert!(!wanted.is_empty(), "{name} does not say what to look for");
        for want in wanted {
            assert!(said.contains(want), "{name}: no {want:?} in:\n{said}");
        }
        cases += 1;
    }
    assert!(cases > 10, "the cases are not all there");
}

/// All that cargo says of each example that does not compile.
fn compile(folder: &Path) -> BTreeMap<String, String> {
    let output = Command::new(env!("CARGO"))
        .args(["check", "--locked", "--examples", "--keep-going"])
        .arg("--message-format=json")
        .current_dir(folder)
        // This test runs inside of cargo, which holds the usual folder.
        .env("CARGO_TARGET_DIR", env!("CARGO_TARGET_TMPDIR"))
        .output()
        .expect(env!("CARGO"));
    let mut said: BTreeMap<String, String> = BTreeMap::new();
    for line in output.stdout.split(|b| *b == b'\n') {
        let message: Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(_) => continue,
        };
        if message["message"]["level"] == "error" {
            let name = message["target"]["name"].as_str().unwrap().to_string();
            let text = message["message"]["rendered"].as_str().unwrap();
            said.entry(name).or_default().push_str(text);
        }
    }
    assert!(
        !said.is_empty() && !said.contains_key("diagnostics"),
        "cargo did not come to the examples: {said:?}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

/// The 95 of `cargo 1.95.0 (f2d3ce0bd 2026-03-21)`.
fn minor() -> u32 {
    let output = Command::new(env!("CARGO"))
        .arg("--version")
        .output()
        .unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    let minor = version.split('.').nth(1).unwrap();
    minor.parse().unwrap()
}
