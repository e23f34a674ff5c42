use super::{FromJson, ToJson};
use crate::error::Error;
use crate::json;
use std::collections::BTreeMap;

/// An error that names what was expected and shows the text, cut short.
fn not_a(what: &str, text: &str) -> Error {
    let shown: String = text.chars().take(40).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    Error::bad_json(format!("expected {what}, got {shown}{more}"))
}

macro_rules! numbers {
    ($what:literal: $($t:ty)+) => {$(
        impl ToJson for $t {
            fn to_json(&self) -> Result<Vec<u8>, Error> {
                let mut out = Vec::with_capacity(20);
                self.append_json(&mut out)?;
                Ok(out)
            }

            fn append_json(&self, out: &mut Vec<u8>) -> Result<(), Error> {
                let wide = *self as i128; // all of these types fit
                json::write_number(out, wide < 0, wide.unsigned_abs() as u64);
                Ok(())
            }
        }
        impl FromJson for $t {
            fn from_json(text: &[u8]) -> Result<$t, Error> {
                if let Some(Ok(n)) = json::whole(text).map(<$t>::try_from) {
                    return Ok(n);
                }
                let text = json::single(text)?;
                text.parse().map_err(|_| not_a(concat!($what, " (", stringify!($t), ")"), text))
            }
        }
    )+};
}

numbers!("a whole number": i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

macro_rules! floats {
    ($($t:ty)+) => {$(
        impl ToJson for $t {
            fn to_json(&self) -> Result<Vec<u8>, Error> {
                if !self.is_finite() {
                    return Ok(b"null".to_vec()); // as serde_json does
                }
                Ok(format!("{self:?}").into_bytes())
            }
        }
        impl FromJson for $t {
            fn from_json(text: &[u8]) -> Result<$t, Error> {
                let text = json::single(text)?;
                match text.parse::<$t>() {
                    Ok(n) if n.is_finite() => Ok(n),
                    _ => Err(not_a("a number", text)),
                }
            }
        }
    )+};
}

floats!(f32 f64);

impl ToJson for bool {
    fn to_json(&self) -> Result<Vec<u8>, Error> {
        Ok(self.to_string().into_bytes())
    }
}

impl FromJson for bool {
    fn from_json(text: &[u8]) -> Result<bool, Error> {
        let text = json::single(text)?;
        text.parse().map_err(|_| not_a("true or false", text))
    }
}

impl ToJson for () {
    fn to_json(&self) -> Result<Vec<u8>, Error> {
        Ok(b"null".to_vec())
    }
}

impl FromJson for () {
    fn from_json(text: &[u8]) -> Result<(), Error> {
        match json::single(text)? {
            "null" => Ok(()),
            other => Err(not_a("null", other)),
        }
    }
}

impl ToJson for str {
    fn to_json(&self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(self.len() + 2);
        json::write_string(&mut out, self);
        Ok(out)
    }

    fn append_json(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        json::write_string(out, self);
        Ok(())
    }
}

impl ToJson for String {
    fn to_json(&self) -> Result<Vec<u8>, Error> {
        self.as_str().to_json()
    }

    fn append_json(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.as_str().append_json(out)
    }
}

impl FromJson for String {
    fn from_json(text: &[u8]) -> Result<String, Error> {
        json::string(text)
    }
}

impl<T: ToJson + ?Sized> ToJson for &T {
    fn to_json(&self) -> Result<Vec<u8>, Error> {
        (**self).to_json()
    }

    fn append_json(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        (**self).append_json(out)
    }
}

impl<T: ToJson> ToJson for Option<T> {
    fn to_json(&self) -> Result<Vec<u8>, Error> {
        match self {
            Some(value) => value.to_json(),
            None => Ok(b"null".to_vec()),
        }
    }

    fn append_json(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Some(value) => value.append_json(out),
            None => ().append_json(out),
        }
    }
}

impl<T: FromJson> FromJson for Option<T> {
    fn from_json(text: &[u8]) -> Result<Option<T>, Error> {
        match json::single(text)? {
            "null" => Ok(None),
            value => T::from_json(value.as_bytes()).map(Some),
        }
    }
}

impl<T: ToJson> ToJson for [T] {
    fn to_json(&self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        self.append_json(&mut out)?;
        Ok(out)
    }

    fn append_json(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.push(b'[');
        for (i, element) in self.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            element.append_json(out)?;
        }
        out.push(b']');
        Ok(())
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn to_json(&self) -> Result<Vec<u8>, Error> {
        self.as_slice().to_json()
    }

    fn append_json(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.as_slice().append_json(out)
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(text: &[u8]) -> Result<Vec<T>, Error> {
        json::elements(text)?
            .into_iter()
            .map(T::from_json)
            .collect()
    }
}

impl<T: ToJson> ToJson for BTreeMap<String, T> {
    fn to_json(&self) -> Result<Vec<u8>, Error> {
        let mut texts = Vec::with_capacity(self.len());
        for (key, value) in self {
            texts.push((key.as_str(), value.to_json()?));
        }
        Ok(json::write_object(
            texts.iter().map(|(k, v)| (*k, v.as_slice())),
        ))
    }
}

impl<T: FromJson> FromJson for BTreeMap<String, T> {
    fn from_json(text: &[u8]) -> Result<BTreeMap<String, T>, Error> {
        json::members(text)?
            .into_iter()
            .map(|(key, value)| Ok((key.into_owned(), T::from_json(value)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn round_trip<T: ToJson + FromJson + PartialEq + Debug>(value: T, text: &str) {
        assert_eq!(value.to_json(), Ok(text.as_bytes().to_vec()));
        assert_eq!(T::from_json(text.as_bytes()), Ok(value));
    }

    #[test]
    fn values_are_json() {
        round_trip(i64::MIN, "-9223372036854775808");
        round_trip(u64::MAX, "18446744073709551615");
        round_trip(true, "true");
        round_trip((), "null");
        round_trip("a\"é".to_string(), "\"a\\\"é\"");
        round_trip(vec![0u8, 255], "[0,255]");
        round_trip(1.5, "1.5");
        round_trip(2.0, "2.0");
        round_trip(1e300, "1e300");
        round_trip(Some(3), "3");
        round_trip(None::<i64>, "null");
        round_trip(vec![vec!["a".to_string()], vec![]], "[[\"a\"],[]]");
        round_trip(BTreeMap::from([("k".to_string(), vec![1])]), "{\"k\":[1]}");
        assert_eq!(f64::NAN.to_json(), Ok(b"null".to_vec()));
    }

    #[test]
    fn what_is_not_the_type_is_refused() {
        fn refuses<T: FromJson + Debug>(texts: &[&str]) {
            for text in texts {
                let error = T::from_json(text.as_bytes()).expect_err(text);
                assert_eq!(error.code(), "bad_json", "{text}");
            }
        }
        refuses::<i64>(&[
            "",
            "1.0",
            "\"1\"",
            "+1",
            "01",
            "null",
            "9223372036854775808",
            "1 1",
        ]);
        refuses::<u8>(&["-1", "256"]);
        refuses::<bool>(&["1", "True", "\"true\""]);
        refuses::<String>(&["1", "\"a", "null"]);
        refuses::<f64>(&["inf", "NaN", "1e999", "\"1\""]);
        refuses::<()>(&["0", "{}"]);
        refuses::<Vec<u8>>(&["[256]", "[1,]", "{}"]);
        refuses::<Option<i64>>(&["\"\""]);
        assert_eq!(
            i64::from_json(b"[1]").unwrap_err().message(),
            "expected a whole number (i64), got [1]"
        );
    }
}
