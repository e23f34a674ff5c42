//! Does what the library of Rust asks of WASI, and prints what it got.
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{Read, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn main() {
    println!("args {} env {}", std::env::args().count(), std::env::vars().count());
    println!("now {:?}", SystemTime::now().duration_since(UNIX_EPOCH));
    let start = Instant::now();
    std::thread::sleep(Duration::from_secs(3600));
    println!("slept an hour {}", start.elapsed() >= Duration::from_secs(3600));
    println!("random {}", RandomState::new().build_hasher().finish());
    println!("no file {}", std::fs::read("/etc/passwd").is_err());
    println!("no folder {}", std::fs::read_dir("/").is_err());
    println!("no way to make one {}", std::fs::create_dir("x").is_err());
    println!("no network {}", std::net::TcpStream::connect("127.0.0.1:1").is_err());
    let mut input = String::new();
    println!("input {:?} {:?}", std::io::stdin().read_to_string(&mut input), input);
    print!("without an end, ");
    std::io::stdout().flush().unwrap();
    eprintln!("to stderr");
    std::thread::yield_now();
    std::process::exit(7);
}
