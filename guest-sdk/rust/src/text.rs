//! What is asked of every text, eight bytes at a time: most are short and ASCII,
//! and a guest's standard library looks at each byte of them.

use std::convert::TryInto;
use std::str::{self, Utf8Error};

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x80 * ONES;

fn word(chunk: &[u8]) -> u64 {
    u64::from_le_bytes(chunk.try_into().unwrap_or_default())
}

/// What [`str::from_utf8`] says.
#[inline]
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, Utf8Error> {
    if ascii(bytes) {
        // SAFETY: ASCII is UTF-8.
        return Ok(unsafe { str::from_utf8_unchecked(bytes) });
    }
    str::from_utf8(bytes)
}

fn ascii(bytes: &[u8]) -> bool {
    let mut bits = 0;
    let mut words = bytes.chunks_exact(8);
    for chunk in &mut words {
        bits |= word(chunk);
    }
    for byte in words.remainder() {
        bits |= u64::from(*byte);
    }
    bits & HIGH == 0
}

/// Whether they are equal.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let (mut a, mut b) = (a.chunks_exact(8), b.chunks_exact(8));
    for (x, y) in (&mut a).zip(&mut b) {
        if word(x) != word(y) {
            return false;
        }
    }
    a.remainder().iter().eq(b.remainder())
}

/// How many bytes at the beginning stand for themselves in a JSON string: up to
/// the first quotation mark, backslash or control character.
pub(crate) fn plain(bytes: &[u8]) -> usize {
    // The high bit of each byte that is zero. A borrow may set it in a higher
    // byte too, never in a lower one, and the lowest is what counts.
    fn zeros(w: u64) -> u64 {
        w.wrapping_sub(ONES) & !w
    }
    let mut words = bytes.chunks_exact(8);
    let mut at = 0;
    for chunk in &mut words {
        let w = word(chunk);
        let control = w.wrapping_sub(0x20 * ONES) & !w;
        let quote = zeros(w ^ (u64::from(b'"') * ONES));
        let slash = zeros(w ^ (u64::from(b'\\') * ONES));
        let found = (control | quote | slash) & HIGH;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    for byte in words.remainder() {
        if matches!(byte, b'"' | b'\\' | 0..=0x1f) {
            break;
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_found_at_every_place() {
        for len in 0..20 {
            let clean = vec![b'a'; len];
            assert_eq!(plain(&clean), len);
            assert!(utf8(&clean).is_ok() && same(&clean, &clean.clone()));
            for at in 0..len {
                for byte in 0..=255 {
                    let mut text = clean.clone();
                    text[at] = byte;
                    let stops = matches!(byte, b'"' | b'\\' | 0..=0x1f);
                    assert_eq!(plain(&text), if stops { at } else { len }, "{text:?}");
                    assert_eq!(utf8(&text), str::from_utf8(&text), "{text:?}");
                    assert_eq!(same(&text, &clean), byte == b'a', "{text:?}");
                }
            }
            assert!(!same(&clean, &vec![b'a'; len + 1]));
        }
        assert_eq!(plain("é💚é💚\u{7f}\"".as_bytes()), 13);
        assert_eq!(plain(b"aaaaaaa\"\x01\\aaaaaaaaa"), 7);
        assert_eq!(plain(b"aaa!\"#[\\]aaaaaaa"), 4);
    }
}
