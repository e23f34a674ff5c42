//! Kernels for measuring what metering costs in Rust guests. Each export does
//! its work n times and returns something that depends on it.

mod json;
mod sha256;

/// Keeps the compiler from knowing a value; `std::hint::black_box` is younger
/// than the oldest Rust that has to build this.
fn black_box<T>(value: T) -> T {
    let value = std::mem::ManuallyDrop::new(value);
    unsafe { std::ptr::read_volatile(&*value) }
}

#[no_mangle]
pub extern "C" fn tight(n: u32) -> u32 {
    let mut x = 1u32;
    for i in 0..n * 100_000 {
        x = (x ^ i).wrapping_mul(31).wrapping_add(i);
    }
    x
}

fn fibonacci(n: u32) -> u32 {
    if n < 2 {
        n
    } else {
        fibonacci(n - 1) + fibonacci(n - 2)
    }
}

#[no_mangle]
pub extern "C" fn fib(n: u32) -> u32 {
    (0..n).map(|_| fibonacci(black_box(18))).fold(0, u32::wrapping_add)
}

#[no_mangle]
pub extern "C" fn memsum(n: u32) -> u32 {
    let mut words = vec![1u32; 64 << 10];
    let mut sum = 0u32;
    for j in 0..n {
        words[j as usize % (64 << 10)] = j;
        for w in black_box(&words) {
            sum = sum.wrapping_add(*w);
        }
    }
    sum
}

#[no_mangle]
pub extern "C" fn sort(n: u32) -> u32 {
    let mut a = vec![0u32; 2000];
    for j in 0..n {
        let mut x = j + 1;
        for w in a.iter_mut() {
            x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            *w = x;
        }
        a.sort();
    }
    a[0]
}

const DOCUMENT: &str = r#"{"id":17,"name":"a cart","open":true,"items":[{"sku":"A-1","n":2,"price":9.5},{"sku":"B-22","n":1,"price":120.25}],"note":null,"tags":["x","y\n","z"]}"#;

#[no_mangle]
pub extern "C" fn json(n: u32) -> u32 {
    (0..n).map(|_| json::parse(black_box(DOCUMENT)).map_or(0, |v| v.size())).sum()
}

#[no_mangle]
pub extern "C" fn sha256(n: u32) -> u32 {
    let mut block = vec![0u8; 4096];
    for _ in 0..n {
        block[0] = sha256::digest(&block)[0];
    }
    block[0].into()
}

#[no_mangle]
pub extern "C" fn matrix(n: u32) -> u32 {
    const SIZE: usize = 48;
    let mut a = vec![[0f64; SIZE]; SIZE];
    let mut b = vec![[0f64; SIZE]; SIZE];
    let mut c = vec![[0f64; SIZE]; SIZE];
    for k in 0..n as usize {
        b[k % SIZE][k % SIZE] = k as f64;
        for i in 0..SIZE {
            for j in 0..SIZE {
                let s: f64 = (0..SIZE).map(|l| a[i][l] * b[l][j]).sum();
                c[i][j] = s;
                a[i][j] = s + 1.0;
            }
        }
    }
    c[3][4] as u32
}

#[no_mangle]
pub extern "C" fn text(n: u32) -> u32 {
    let mut total = 0;
    for _ in 0..n {
        let mut s = String::new();
        for j in 0..500u32 {
            s.push_str("abc");
            s.push(char::from(b'a' + (j % 26) as u8));
        }
        total += black_box(&s).matches("ca").count() as u32;
    }
    total
}
