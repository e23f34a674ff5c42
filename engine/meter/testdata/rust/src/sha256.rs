//! SHA-256 (FIPS 180-4), with its constants computed as they are defined: the
//! first bits of the fractions of roots of primes.

fn constants() -> ([u32; 64], [u32; 8]) {
    let (mut k, mut h) = ([0; 64], [0; 8]);
    let mut found = 0;
    for n in 2u32.. {
        if (2..n).any(|d| d * d <= n && n % d == 0) {
            continue;
        }
        k[found] = fraction(f64::from(n).cbrt());
        if found < 8 {
            h[found] = fraction(f64::from(n).sqrt());
        }
        found += 1;
        if found == 64 {
            break;
        }
    }
    (k, h)
}

fn fraction(x: f64) -> u32 {
    ((x - x.floor()) * 4294967296.0) as u32
}

pub fn digest(data: &[u8]) -> [u8; 32] {
    let (k, mut h) = constants();
    let mut message = data.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend_from_slice(&(data.len() as u64 * 8).to_be_bytes());
    for block in message.chunks(64) {
        compress(&k, &mut h, block);
    }
    let mut out = [0; 32];
    for (o, w) in out.chunks_mut(4).zip(h) {
        o.copy_from_slice(&w.to_be_bytes());
    }
    out
}

fn compress(k: &[u32; 64], h: &mut [u32; 8], block: &[u8]) {
    let mut w = [0u32; 64];
    for (w, b) in w.iter_mut().zip(block.chunks(4)) {
        *w = u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
    }
    for i in 16..64 {
        let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
        let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
    }
    let mut s = *h;
    for i in 0..64 {
        let s1 = s[4].rotate_right(6) ^ s[4].rotate_right(11) ^ s[4].rotate_right(25);
        let choice = (s[4] & s[5]) ^ (!s[4] & s[6]);
        let t1 = s[7].wrapping_add(s1).wrapping_add(choice).wrapping_add(k[i]).wrapping_add(w[i]);
        let s0 = s[0].rotate_right(2) ^ s[0].rotate_right(13) ^ s[0].rotate_right(22);
        let majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        s = [t1.wrapping_add(s0.wrapping_add(majority)), s[0], s[1], s[2], s[3].wrapping_add(t1), s[4], s[5], s[6]];
    }
    for (h, s) in h.iter_mut().zip(s) {
        *h = h.wrapping_add(s);
    }
}
