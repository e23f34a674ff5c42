//! Just enough JSON to take texts apart without building values: where a value
//! ends, the members of an object, the elements of an array, and strings.
//!
//! Nothing here recurses, so that no text can exhaust a guest's small stack.

use crate::error::Error;
use crate::text;
use std::borrow::Cow;

/// A member of an object: decoded key, value as it stands in the text, without
/// white space around it.
pub(crate) type Member<'t> = (Cow<'t, str>, &'t [u8]);

/// The members of an object, in the text's order.
pub(crate) fn members(text: &[u8]) -> Result<Vec<Member<'_>>, Error> {
    let mut members = Vec::new();
    each_member(text, |key, value| {
        members.push((key, value));
        Ok(())
    })?;
    Ok(members)
}

/// Calls `each` for what [`members`] returns, until it fails. What follows a
/// member in the text is looked at after the call.
pub(crate) fn each_member<'t>(
    text: &'t [u8],
    mut each: impl FnMut(Cow<'t, str>, &'t [u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut s = Scanner::new(text)?;
    s.space();
    s.expect(b'{', "an object")?;
    s.space();
    if !s.eat(b'}') {
        loop {
            s.space();
            let key = s.string()?;
            s.space();
            s.expect(b':', "`:`")?;
            each(key, s.value()?)?;
            s.space();
            if s.eat(b'}') {
                break;
            }
            s.expect(b',', "`,` or `}`")?;
        }
    }
    s.end()
}

/// The elements of an array, each as it stands in the text.
#[cfg_attr(feature = "serde", allow(dead_code))]
pub(crate) fn elements(text: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let mut s = Scanner::new(text)?;
    s.space();
    s.expect(b'[', "an array")?;
    let mut elements = Vec::new();
    s.space();
    if !s.eat(b']') {
        loop {
            elements.push(s.value()?);
            s.space();
            if s.eat(b']') {
                break;
            }
            s.expect(b',', "`,` or `]`")?;
        }
    }
    s.end()?;
    Ok(elements)
}

/// The value of a text that is one JSON string.
#[cfg_attr(feature = "serde", allow(dead_code))]
pub(crate) fn string(text: &[u8]) -> Result<String, Error> {
    let mut s = Scanner::new(text)?;
    s.space();
    let value = s.string()?;
    s.end()?;
    Ok(value.into_owned())
}

/// A text that is one JSON value, without white space around it.
#[cfg_attr(all(feature = "serde", target_arch = "wasm32"), allow(dead_code))]
pub(crate) fn single(text: &[u8]) -> Result<&str, Error> {
    let mut s = Scanner::new(text)?;
    s.space();
    let start = s.pos;
    let end = start + s.value()?.len();
    s.end()?;
    Ok(&s.whole[start..end])
}

/// The value of a text that is nothing but a whole number of at most 18 digits,
/// which many payloads and fields are: what [`single`] and parsing would say of
/// it, at less cost.
#[cfg_attr(feature = "serde", allow(dead_code))]
pub(crate) fn whole(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        [b'0'] if digits.len() < text.len() => return None, // -0: as the type has it
        [b'0'] => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 18 => {}
        _ => return None,
    }
    let mut n = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        n = n * 10 + i64::from(digit - b'0');
    }
    Some(if digits.len() < text.len() { -n } else { n })
}

/// Appends a whole number.
#[cfg_attr(feature = "serde", allow(dead_code))]
pub(crate) fn write_number(out: &mut Vec<u8>, negative: bool, mut n: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        // Wasm has no cheap division by a constant: for 32 bits it is this product.
        let tenth = match u32::try_from(n) {
            Ok(small) => (u64::from(small) * 0xcccc_cccd) >> 35,
            Err(_) => n / 10,
        };
        at -= 1;
        digits[at] = b'0' + (n - tenth * 10) as u8;
        n = tenth;
        if n == 0 {
            break;
        }
    }
    if negative {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends `text` as a JSON string.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut rest = text.as_bytes();
    out.push(b'"');
    loop {
        let (plain, after) = rest.split_at(text::plain(rest));
        out.extend_from_slice(plain);
        let (byte, after) = match after.split_first() {
            Some((byte, after)) => (*byte, after),
            None => break,
        };
        rest = after;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..=0x1f => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Appends an object.
pub(crate) fn write_object<'m>(members: impl IntoIterator<Item = (&'m str, &'m [u8])>) -> Vec<u8> {
    let mut out = vec![b'{'];
    for (key, value) in members {
        if out.len() > 1 {
            out.push(b',');
        }
        write_string(&mut out, key);
        out.push(b':');
        out.extend_from_slice(value);
    }
    out.push(b'}');
    out
}

struct Scanner<'a> {
    whole: &'a str,
    text: &'a [u8], // its bytes
    pos: usize,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a [u8]) -> Result<Scanner<'a>, Error> {
        match text::utf8(text) {
            Ok(whole) => Ok(Scanner {
                whole,
                text,
                pos: 0,
            }),
            Err(e) => Err(Error::bad_json(format!(
                "not UTF-8 at byte {}",
                e.valid_up_to()
            ))),
        }
    }

    #[cold]
    #[inline(never)]
    fn fail(&self, expected: &str) -> Error {
        let found = match self.peek() {
            None => "the end".to_string(),
            Some(b) if b.is_ascii_graphic() => format!("`{}`", b as char),
            Some(b) => format!("byte {b:#04x}"),
        };
        Error::bad_json(format!(
            "expected {expected} at byte {}, found {found}",
            self.pos
        ))
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.pos).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.pos += usize::from(there);
        there
    }

    fn expect(&mut self, byte: u8, what: &str) -> Result<(), Error> {
        if self.eat(byte) {
            return Ok(());
        }
        Err(self.fail(what))
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.pos += 1;
        }
    }

    fn end(&mut self) -> Result<(), Error> {
        self.space();
        if self.pos == self.text.len() {
            return Ok(());
        }
        Err(self.fail("nothing more"))
    }

    /// Passes one value and returns it as it stands in the text.
    fn value(&mut self) -> Result<&'a [u8], Error> {
        self.space();
        let start = self.pos;
        match self.peek() {
            Some(b'"') => self.skip_string()?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.any()?,
        }
        Ok(&self.text[start..self.pos])
    }

    /// Passes one value, whatever it has in it.
    fn any(&mut self) -> Result<(), Error> {
        let mut open: Vec<u8> = Vec::new();
        'value: loop {
            self.space();
            match self.peek() {
                Some(b'{') => {
                    self.pos += 1;
                    self.space();
                    if !self.eat(b'}') {
                        self.key()?;
                        open.push(b'}');
                        continue;
                    }
                }
                Some(b'[') => {
                    self.pos += 1;
                    self.space();
                    if !self.eat(b']') {
                        open.push(b']');
                        continue;
                    }
                }
                Some(b'"') => self.skip_string()?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                _ => return Err(self.fail("a value")),
            }
            // A value has ended: so may what it is in.
            while let Some(close) = open.last().copied() {
                self.space();
                if self.eat(b',') {
                    if close == b'}' {
                        self.space();
                        self.key()?;
                    }
                    continue 'value;
                }
                self.expect(
                    close,
                    if close == b'}' {
                        "`,` or `}`"
                    } else {
                        "`,` or `]`"
                    },
                )?;
                open.pop();
            }
            return Ok(());
        }
    }

    fn key(&mut self) -> Result<(), Error> {
        self.skip_string()?;
        self.space();
        self.expect(b':', "`:`")
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), Error> {
        if self.text[self.pos..].starts_with(word) {
            self.pos += word.len();
            return Ok(());
        }
        Err(self.fail("a value"))
    }

    fn digits(&mut self) -> Result<(), Error> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.fail("a digit"));
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.pos += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Error> {
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            if !self.eat(b'+') {
                self.eat(b'-');
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Passes a string without decoding it.
    fn skip_string(&mut self) -> Result<(), Error> {
        self.expect(b'"', "a string")?;
        loop {
            self.pos += text::plain(&self.text[self.pos..]);
            match self.peek() {
                Some(b'"') => {
                    self.pos += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.pos += 1;
                    match self.peek() {
                        Some(b'u') => {
                            self.pos += 1;
                            self.hex4()?;
                        }
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                            self.pos += 1;
                        }
                        _ => return Err(self.fail("an escape")),
                    }
                }
                _ => return Err(self.fail("`\"`")),
            }
        }
    }

    fn hex4(&mut self) -> Result<u16, Error> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| (b as char).to_digit(16));
            match digit {
                Some(d) => value = value << 4 | d as u16,
                None => return Err(self.fail("a hexadecimal digit")),
            }
            self.pos += 1;
        }
        Ok(value)
    }

    /// Passes a string and decodes it. A surrogate without its other half
    /// becomes U+FFFD, as in Go.
    fn string(&mut self) -> Result<Cow<'a, str>, Error> {
        let start = self.pos + 1;
        self.skip_string()?;
        let whole = &self.whole[start..self.pos - 1];
        let raw = whole.as_bytes();
        if !raw.contains(&b'\\') {
            return Ok(Cow::Borrowed(whole));
        }
        let mut out = Vec::with_capacity(raw.len());
        let mut s = Scanner {
            whole,
            text: raw,
            pos: 0,
        };
        while let Some(byte) = s.peek() {
            s.pos += 1;
            if byte != b'\\' {
                out.push(byte);
                continue;
            }
            let escape = s.peek();
            s.pos += 1;
            match escape {
                Some(b'b') => out.push(0x08),
                Some(b'f') => out.push(0x0c),
                Some(b'n') => out.push(b'\n'),
                Some(b'r') => out.push(b'\r'),
                Some(b't') => out.push(b'\t'),
                Some(b'u') => {
                    let c = s.escaped_char()?;
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(other) => out.push(other),
                None => {}
            }
        }
        Ok(Cow::Owned(String::from_utf8_lossy(&out).into_owned()))
    }

    /// The character of a `\u`, which may need the next one as well.
    fn escaped_char(&mut self) -> Result<char, Error> {
        let first = self.hex4()?;
        if (0xd800..0xdc00).contains(&first) && self.text[self.pos..].starts_with(b"\\u") {
            let before = self.pos;
            self.pos += 2;
            let pair = [first, self.hex4()?];
            if let Some(Ok(c)) = char::decode_utf16(pair).next() {
                return Ok(c);
            }
            self.pos = before;
        }
        Ok(char::from_u32(u32::from(first)).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_accepts_exactly_one_value() {
        for good in [
            "0",
            "-0",
            "12.5e+3",
            "true",
            " null ",
            "\"a\\u00e9\\n\"",
            "[]",
            "{}",
            "[1, [2, {\"a\": []}], {}]",
            "{\"a\" : {\"b\":[1,2]} , \"c\":null}",
        ] {
            assert_eq!(single(good.as_bytes()), Ok(good.trim()), "{good}");
        }
        for bad in [
            "",
            " ",
            "01",
            "1.",
            "-",
            "1e",
            "tru",
            "nulls",
            "\"",
            "\"\n\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "{\"a\":1,}",
            "[}",
            "{]",
            "1 2",
            "[1]]",
            "'a'",
            "\u{feff}1",
        ] {
            assert!(single(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(single(b"\"\xff\"").is_err());
    }

    #[test]
    fn nesting_needs_no_stack() {
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        assert_eq!(single(deep.as_bytes()).map(str::len), Ok(2_000_000));
        assert!(single(&deep.as_bytes()[..1_500_000]).is_err());
    }

    #[test]
    fn members_are_found_in_order() {
        let text = br#" { "a" : 1 , "b\u0041\"" : [ {"a":2}, 3 ] , "" : "x" } "#;
        let got = members(text).unwrap();
        let want: [(&str, &[u8]); 3] =
            [("a", b"1"), ("bA\"", br#"[ {"a":2}, 3 ]"#), ("", br#""x""#)];
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert_eq!((got.0.as_ref(), got.1), want);
        }
        assert!(members(b"[]").is_err());
        assert!(members(b"{\"a\":1} 2").is_err());
        assert!(members(b"{,}").is_err());
    }

    #[test]
    fn elements_are_found_in_order() {
        assert_eq!(
            elements(b" [ 1 , \"a,b\", [2,3] ] "),
            Ok(vec![&b"1"[..], b"\"a,b\"", b"[2,3]"])
        );
        assert_eq!(elements(b"[]"), Ok(vec![]));
        assert!(elements(b"[1").is_err());
        assert!(elements(b"{}").is_err());
    }

    #[test]
    fn strings_survive_a_round_trip() {
        for text in ["", "a", "é💚\u{0}\u{1f}\"\\/\n\r\t\u{8}\u{c}", "\u{7f}"] {
            let mut out = Vec::new();
            write_string(&mut out, text);
            assert_eq!(string(&out).as_deref(), Ok(text));
        }
        assert_eq!(string(br#""\ud83d\udc9a\/""#).as_deref(), Ok("💚/"));
        assert_eq!(
            string(br#""\ud83dx\udc9a\ud83d\u0041""#).as_deref(),
            Ok("\u{fffd}x\u{fffd}\u{fffd}A")
        );
    }
}
