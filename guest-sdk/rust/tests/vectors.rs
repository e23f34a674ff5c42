//! The vectors of `abi/testdata/vectors`, which the Go codec passes too.

use greenroom::codec::{
    self, ErrorFrame, HttpRequestFrame, HttpResponseFrame, MessageFrame, ReminderFrame,
    ResultFrame, TurnFrame,
};
use serde_json::Value;

fn vectors(file: &str) -> Vec<Value> {
    let path = format!(
        "{}/../../abi/testdata/vectors/{file}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let file: Value = serde_json::from_slice(&text).unwrap();
    let vectors = file["vectors"].as_array().unwrap().clone();
    assert!(!vectors.is_empty());
    vectors
}

fn hex(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap().as_bytes();
    let digit = |b: u8| (b as char).to_digit(16).unwrap() as u8;
    let pairs = text.chunks(2);
    pairs.map(|p| digit(p[0]) << 4 | digit(p[1])).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Runs `check` with each vector's name, bytes and value. `None`: a decoder must
/// refuse the bytes.
fn each(file: &str, member: &str, check: impl Fn(&str, &[u8], Option<&Value>, bool)) {
    for vector in vectors(file) {
        let refused = vector.get("refused").is_some();
        let value = if refused { None } else { Some(&vector[member]) };
        check(
            text(&vector["name"]),
            &hex(&vector["hex"]),
            value,
            vector["canonical"] == true,
        );
    }
}

#[test]
fn turns() {
    each("turn", "turn", |name, bytes, value, canonical| {
        let decoded = codec::decode_turn(bytes);
        let want = match value {
            Some(want) => want,
            None => return assert!(decoded.is_err(), "{name}: accepted"),
        };
        let payload = hex(&want["payload_hex"]);
        let want = TurnFrame {
            what: want["what"].as_u64().unwrap() as u8,
            flags: want["flags"].as_u64().unwrap() as u32,
            app: text(&want["app"]),
            actor_type: text(&want["type"]),
            id: text(&want["id"]),
            method: text(&want["method"]),
            invocation_id: text(&want["invocation_id"]),
            time_unix_nano: want["time_unix_nano"].as_i64().unwrap(),
            revision: want["revision"].as_u64().unwrap(),
            stored_schema: want["stored_schema"].as_u64().unwrap() as u32,
            content_type: text(&want["content_type"]),
            payload: &payload,
            cause: want["cause"].as_u64().unwrap() as u8,
            caller_type: text(&want["caller_type"]),
            caller_id: text(&want["caller_id"]),
            cause_name: text(&want["cause_name"]),
            due_unix_nano: want["due_unix_nano"].as_i64().unwrap(),
            attempt: want["attempt"].as_u64().unwrap() as u32,
            missed: want["missed"].as_u64().unwrap() as u32,
            metadata: headers(&want["metadata"]),
            cookie: want["cookie"].as_u64().unwrap(),
            method_set: text(&want["method_set"]),
            failed: text(&want["failed"]),
            by_type: text(&want["by_type"]),
            by_id: text(&want["by_id"]),
        };
        assert_eq!(decoded.as_ref(), Ok(&want), "{name}");
        if canonical {
            assert_eq!(codec::encode_turn(&want), bytes, "{name}: encoded");
        }
    });
}

fn error_frame<'a>(value: &'a Value, detail: &'a [u8]) -> ErrorFrame<'a> {
    ErrorFrame {
        status: value["status"].as_u64().unwrap() as u16,
        code: text(&value["code"]),
        message: text(&value["message"]),
        retryable: value["retryable"].as_bool().unwrap(),
        detail_content_type: text(&value["detail_content_type"]),
        detail,
        retry_after_millis: value["retry_after_ms"].as_u64().unwrap() as u32,
    }
}

#[test]
fn errors() {
    each("error", "error", |name, bytes, value, canonical| {
        let decoded = codec::decode_error(bytes);
        let want = match value {
            Some(want) => want,
            None => return assert!(decoded.is_err(), "{name}: accepted"),
        };
        let detail = hex(&want["detail_hex"]);
        let want = error_frame(want, &detail);
        assert_eq!(decoded.as_ref(), Ok(&want), "{name}");
        if canonical {
            assert_eq!(codec::encode_error(&want), bytes, "{name}: encoded");
        }
    });
}

#[test]
fn key_lists() {
    each("key_list", "keys", |name, bytes, value, canonical| {
        let decoded = codec::decode_key_list(bytes);
        let want = match value {
            Some(want) => want,
            None => return assert!(decoded.is_err(), "{name}: accepted"),
        };
        let want: Vec<&str> = want.as_array().unwrap().iter().map(text).collect();
        assert_eq!(decoded.as_ref(), Ok(&want), "{name}");
        if canonical {
            assert_eq!(codec::encode_key_list(want), bytes, "{name}: encoded");
        }
    });
}

fn headers(list: &Value) -> Vec<(&str, &str)> {
    let list = list.as_array().unwrap().iter();
    list.map(|h| (text(&h["name"]), text(&h["value"])))
        .collect()
}

#[test]
fn requests() {
    each("request", "request", |name, bytes, value, canonical| {
        let decoded = codec::decode_http_request(bytes);
        let want = match value {
            Some(want) => want,
            None => return assert!(decoded.is_err(), "{name}: accepted"),
        };
        let body = hex(&want["body_hex"]);
        let want = HttpRequestFrame {
            method: text(&want["method"]),
            url: text(&want["url"]),
            headers: headers(&want["headers"]),
            body: &body,
            timeout_millis: want["timeout_ms"].as_u64().unwrap() as u32,
            flags: want["flags"].as_u64().unwrap() as u32,
        };
        assert_eq!(decoded.as_ref(), Ok(&want), "{name}");
        if canonical {
            assert_eq!(codec::encode_http_request(&want), bytes, "{name}: encoded");
        }
    });
}

#[test]
fn responses() {
    each("response", "response", |name, bytes, value, canonical| {
        let decoded = codec::decode_http_response(bytes);
        let want = match value {
            Some(want) => want,
            None => return assert!(decoded.is_err(), "{name}: accepted"),
        };
        let body = hex(&want["body_hex"]);
        let want = HttpResponseFrame {
            status: want["status"].as_u64().unwrap() as u16,
            headers: headers(&want["headers"]),
            body: &body,
            code: text(&want["code"]),
            message: text(&want["message"]),
        };
        assert_eq!(decoded.as_ref(), Ok(&want), "{name}");
        if canonical {
            assert_eq!(codec::encode_http_response(&want), bytes, "{name}: encoded");
        }
    });
}

#[test]
fn reminders() {
    each("reminder", "reminder", |name, bytes, value, canonical| {
        let decoded = codec::decode_reminder(bytes);
        let want = match value {
            Some(want) => want,
            None => return assert!(decoded.is_err(), "{name}: accepted"),
        };
        let payload = hex(&want["payload_hex"]);
        let number = |member: &str| want[member].as_i64().unwrap();
        let want = ReminderFrame {
            name: text(&want["name"]),
            method: text(&want["method"]),
            content_type: text(&want["content_type"]),
            payload: &payload,
            due_unix_nano: number("due_unix_nano"),
            period_nano: number("period_nano"),
            cron: text(&want["cron"]),
            zone: text(&want["zone"]),
            count: number("count") as u32,
            until_unix_nano: number("until_unix_nano"),
            missed: number("missed") as u8,
            attempts: number("attempts") as u32,
            metadata: headers(&want["metadata"]),
            delay_nano: number("delay_nano"),
            jitter_nano: number("jitter_nano"),
            missed_limit: number("missed_limit") as u32,
            missed_after_nano: number("missed_after_nano"),
            failure: number("failure") as u8,
            interval_nano: number("interval_nano"),
            longest_interval_nano: number("longest_interval_nano"),
            flags: number("flags") as u32,
        };
        assert_eq!(decoded.as_ref(), Ok(&want), "{name}");
        if canonical {
            assert_eq!(codec::encode_reminder(&want), bytes, "{name}: encoded");
        }
    });
}

#[test]
fn messages() {
    each("message", "message", |name, bytes, value, canonical| {
        let decoded = codec::decode_message(bytes);
        let want = match value {
            Some(want) => want,
            None => return assert!(decoded.is_err(), "{name}: accepted"),
        };
        let payload = hex(&want["payload_hex"]);
        let want = MessageFrame {
            actor_type: text(&want["type"]),
            id: text(&want["id"]),
            method: text(&want["method"]),
            content_type: text(&want["content_type"]),
            payload: &payload,
            flags: want["flags"].as_u64().unwrap() as u32,
            limit_millis: want["limit_ms"].as_u64().unwrap() as u32,
            service: text(&want["service"]),
            due_unix_nano: want["due_unix_nano"].as_i64().unwrap(),
            undelivered: text(&want["undelivered"]),
            cookie: want["cookie"].as_u64().unwrap(),
            channel: want["channel"].as_u64().unwrap() as u32,
            delay_nano: want["delay_nano"].as_i64().unwrap(),
            forward_type: text(&want["forward_type"]),
            forward_id: text(&want["forward_id"]),
            on_behalf_type: text(&want["on_behalf_type"]),
            on_behalf_id: text(&want["on_behalf_id"]),
        };
        assert_eq!(decoded.as_ref(), Ok(&want), "{name}");
        if canonical {
            assert_eq!(codec::encode_message(&want), bytes, "{name}: encoded");
        }
    });
}

#[test]
fn results() {
    each("result", "result", |name, bytes, value, canonical| {
        let decoded = codec::decode_result(bytes);
        let want = match value {
            Some(want) => want,
            None => return assert!(decoded.is_err(), "{name}: accepted"),
        };
        let payload = hex(&want["payload_hex"]);
        let detail = hex(&want["error"]["detail_hex"]);
        let want = ResultFrame {
            error: error_frame(&want["error"], &detail),
            content_type: text(&want["content_type"]),
            payload: &payload,
            flags: want["flags"].as_u64().unwrap_or_default() as u32,
        };
        assert_eq!(decoded.as_ref(), Ok(&want), "{name}");
        if canonical {
            assert_eq!(codec::encode_result(&want), bytes, "{name}: encoded");
        }
    });
}

/// The problems are part of the contract with people who read logs of both SDKs.
#[test]
fn refusals_read_as_in_go() {
    type Decode = fn(&[u8]) -> Option<String>;
    let decoders: [(&str, Decode); 8] = [
        ("turn", |b| {
            codec::decode_turn(b).err().map(|e| e.to_string())
        }),
        ("error", |b| {
            codec::decode_error(b).err().map(|e| e.to_string())
        }),
        ("key_list", |b| {
            codec::decode_key_list(b).err().map(|e| e.to_string())
        }),
        ("request", |b| {
            codec::decode_http_request(b).err().map(|e| e.to_string())
        }),
        ("response", |b| {
            codec::decode_http_response(b).err().map(|e| e.to_string())
        }),
        ("reminder", |b| {
            codec::decode_reminder(b).err().map(|e| e.to_string())
        }),
        ("message", |b| {
            codec::decode_message(b).err().map(|e| e.to_string())
        }),
        ("result", |b| {
            codec::decode_result(b).err().map(|e| e.to_string())
        }),
    ];
    for (file, decode) in decoders {
        for vector in vectors(file) {
            let want = vector.get("refused").map(|r| text(r).to_string());
            assert_eq!(decode(&hex(&vector["hex"])), want, "{}", vector["name"]);
        }
    }
}

/// No bytes make a decoder panic: every vector cut at every length, and with
/// every byte changed.
#[test]
fn damaged_frames_are_refused_or_read() {
    let decode = |bytes: &[u8]| {
        let _ = codec::decode_turn(bytes);
        let _ = codec::decode_error(bytes);
        let _ = codec::decode_key_list(bytes);
        let _ = codec::decode_http_request(bytes);
        let _ = codec::decode_http_response(bytes);
        let _ = codec::decode_reminder(bytes);
        let _ = codec::decode_message(bytes);
        let _ = codec::decode_result(bytes);
    };
    for file in [
        "turn", "error", "key_list", "request", "response", "reminder", "message", "result",
    ] {
        for vector in vectors(file) {
            let mut bytes = hex(&vector["hex"]);
            bytes.truncate(2000);
            for end in 0..bytes.len() {
                decode(&bytes[..end]);
            }
            for i in 0..bytes.len() {
                for change in [0x01, 0x80, 0xff] {
                    bytes[i] ^= change;
                    decode(&bytes);
                    bytes[i] ^= change;
                }
            }
        }
    }
}
