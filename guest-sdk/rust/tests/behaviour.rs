//! What both SDKs and their test kits do alike: `behaviour.json` of
//! `abi/testdata/vectors`, which the Go SDK plays too.

#![cfg(feature = "serde")]

use greenroom::prelude::*;
use greenroom::testing::Host;
use greenroom::{CauseKind, Missed, Reminder, Timer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Default, Serialize, Deserialize)]
struct Subject {
    #[serde(default)]
    count: i64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    label: String,
}

#[derive(Deserialize)]
struct Add {
    #[serde(default)]
    amount: i64,
    #[serde(default)]
    label: String,
}

#[derive(Deserialize)]
struct Put {
    key: String,
    value: String,
}

#[derive(Deserialize)]
struct Fail {
    status: u16,
    code: String,
    message: String,
    #[serde(default)]
    retry: bool,
    #[serde(default)]
    retry_after_ms: u64,
    detail: Option<String>,
}

/// An error of the language.
type Plain = Box<dyn std::error::Error + Send + Sync>;

/// What JSON has no form for: a key that is no text.
type NoJson = BTreeMap<Vec<u8>, u8>;

impl Subject {
    fn snapshot(&self) -> Value {
        serde_json::to_value(self).unwrap()
    }

    fn add(&mut self, _: &Context, add: Add) -> Result<Value, Error> {
        self.count += add.amount;
        if !add.label.is_empty() {
            self.label = add.label;
        }
        Ok(self.snapshot())
    }

    fn add_and_refuse(&mut self, ctx: &Context, add: Add) -> Result<(), Error> {
        let message = format!("not {}", add.amount);
        self.add(ctx, add)?;
        Err(Error::failed_precondition("refused", message))
    }

    fn view(&self, _: &ReadContext) -> Result<Value, Error> {
        Ok(self.snapshot())
    }

    fn wipe(&mut self, ctx: &Context) -> Result<Value, Error> {
        ctx.state().delete_all(self)?;
        Ok(self.snapshot())
    }

    fn wipe_and_add(&mut self, ctx: &Context, add: Add) -> Result<Value, Error> {
        ctx.state().delete_all(self)?;
        self.add(ctx, add)
    }

    fn put(&self, ctx: &Context, put: Put) -> Result<Payload, Error> {
        ctx.state().set(&put.key, &put.value)?;
        Ok(Payload::default())
    }

    fn each(&self, ctx: &ReadContext, prefix: String) -> Result<Vec<(String, String)>, Error> {
        ctx.state().each(&prefix).collect()
    }

    fn fail(&mut self, _: &Context, fail: Fail) -> Result<(), Error> {
        let status = Status::from_number(fail.status);
        let mut error = Error::new(status, fail.code, fail.message);
        if fail.retry {
            error = error.retryable();
        }
        if fail.retry_after_ms > 0 {
            error = error.retry_after(Duration::from_millis(fail.retry_after_ms));
        }
        if let Some(detail) = fail.detail {
            error = error.with_detail(&detail);
        }
        Err(error)
    }

    fn plain(&mut self, _: &Context) -> Result<(), Plain> {
        Err("no such luck".into())
    }

    fn echo(&mut self, _: &Context, text: String) -> Result<String, Error> {
        Ok(text)
    }

    fn bad_reply(&mut self, _: &Context) -> Result<NoJson, Error> {
        Ok(NoJson::from([(vec![], 1)]))
    }

    fn bad_value(&mut self, ctx: &Context) -> Result<(), Error> {
        ctx.state().set("k", &NoJson::from([(vec![], 1)]))
    }

    fn remind(&self, ctx: &Context, input: Value) -> Result<Payload, Error> {
        let text = |member: &str| input[member].as_str().unwrap_or_default().to_string();
        let number = |member: &str| input[member].as_u64().unwrap_or_default();
        let span = |member: &str| Duration::from_millis(number(member));
        let is = |member: &str| input[member] == true;
        let mut r = Reminder::new(text("name"), text("method"))
            .input(&serde_json::json!({ "amount": number("amount") }))
            .after(span("after_ms"))
            .every(span("every_ms"))
            .cron(text("cron"))
            .zone(text("zone"))
            .times(number("times") as u32)
            .missed(match text("missed").as_str() {
                "skip" => Missed::Skip(Duration::ZERO),
                "catch_up" => Missed::CatchUp(0),
                _ => Missed::Collapse,
            })
            .backoff(span("interval_ms"), span("longest_ms"));
        r.retry.attempts = number("attempts") as u32;
        r.retry.drop = is("drop");
        r.keep = is("keep");
        if number("at_ms") > 0 {
            r = r.at(UNIX_EPOCH + span("at_ms"));
        }
        if number("until_ms") > 0 {
            r = r.until(UNIX_EPOCH + span("until_ms"));
        }
        let name = r.name.clone();
        ctx.reminders().set(r)?;
        ensure!(
            !is("refuse"),
            Error::failed_precondition("refused", format!("not {name}"))
        );
        Ok(Payload::default())
    }

    fn timer(&self, ctx: &Context, input: Value) -> Result<Payload, Error> {
        let text = |k: &str| input[k].as_str().unwrap_or_default();
        let span = |k: &str| Duration::from_millis(input[k].as_u64().unwrap_or_default());
        let add = serde_json::json!({"amount": input["amount"].as_i64().unwrap_or_default()});
        let timer =
            Timer::once(text("name"), text("method"), span("after_ms")).every(span("every_ms"));
        ctx.timers().set(timer.input(&add))?;
        ensure!(
            input["refuse"] != true,
            Error::failed_precondition("refused", "not now")
        );
        Ok(Payload::default())
    }

    fn stop(&self, ctx: &Context, name: String) -> Result<bool, Error> {
        ctx.timers().cancel(&name)
    }

    fn cancel(&self, ctx: &Context, name: String) -> Result<Payload, Error> {
        ctx.reminders().cancel(&name)?;
        Ok(Payload::default())
    }

    fn reminder(&self, ctx: &ReadContext, name: String) -> Result<Value, Error> {
        let r = match ctx.reminders().get(&name)? {
            Some(r) => r,
            None => return Ok(Value::Null),
        };
        Ok(serde_json::json!({
            "at_ms": millis(r.at.unwrap()),
            "cron": r.cron,
            "every_ms": r.every.as_millis() as u64,
            "in": String::from_utf8(r.input.body).unwrap(),
            "method": r.method,
            "times": r.times,
        }))
    }

    fn reminders(&self, ctx: &ReadContext, prefix: String) -> Result<Vec<String>, Error> {
        ctx.reminders().names(&prefix)
    }

    fn tick(&mut self, ctx: &Context, add: Add) -> Result<Value, Error> {
        self.count += add.amount;
        let c = ctx.cause();
        self.label = match c.kind {
            CauseKind::Call => "call".to_string(),
            kind => format!(
                "{} {} {} {} {}",
                if kind == CauseKind::Timer {
                    "timer"
                } else {
                    "reminder"
                },
                c.name,
                millis(c.due),
                c.attempt,
                c.missed
            ),
        };
        Ok(self.snapshot())
    }

    fn tick_at(&mut self, ctx: &Context, mut add: Add) -> Result<Value, Error> {
        let attempt = i64::from(ctx.cause().attempt);
        let early = format!("this is attempt {attempt}");
        ensure!(
            attempt >= add.amount,
            Error::failed_precondition("not_yet", early)
        );
        add.amount = 1;
        self.tick(ctx, add)
    }

    fn name(&self, ctx: &ReadContext) -> Result<String, Error> {
        Ok(ctx.method().to_string())
    }

    fn clock(&self, ctx: &ReadContext) -> Result<i64, Error> {
        Ok(ctx.now_unix_nanos())
    }

    fn secret(&self, ctx: &ReadContext) -> Result<String, Error> {
        let secret = ctx.secret_bytes("key")?;
        Ok(secret.iter().map(|b| format!("{b:02x}")).collect())
    }

    fn secret_text(&self, ctx: &ReadContext) -> Result<String, Error> {
        ctx.secret("key")
    }

    fn undeclared(&self, ctx: &ReadContext) -> Result<String, Error> {
        ctx.secret("other")
    }
}

fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

greenroom::actors! {
    Subject {
        methods: {
            "Add" => add,
            "AddAndRefuse" => add_and_refuse,
            "View" => read_only view,
            "Wipe" => wipe,
            "WipeAndAdd" => wipe_and_add,
            "Put" => put,
            "Each" => read_only each,
            "Fail" => fail,
            "Plain" => plain,
            "Echo" => echo,
            "BadReply" => bad_reply,
            "BadValue" => bad_value,
            "Name" => name,
            "NameReadOnly" => read_only name,
            "Clock" => read_only clock,
            "Remind" => remind,
            "Cancel" => cancel,
            "Timer" => timer,
            "Stop" => stop,
            "Reminder" => read_only reminder,
            "Reminders" => read_only reminders,
            "Tick" => tick,
            "TickAt" => tick_at,
            "Secret" => read_only secret,
            "SecretText" => read_only secret_text,
            "Undeclared" => read_only undeclared,
        },
        capabilities: { secrets: ["key"] },
    }
}

#[test]
fn both_sdks_do_the_same() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../abi/testdata/vectors/behaviour.json"
    );
    let file: Value = serde_json::from_slice(&std::fs::read(path).expect(path)).unwrap();
    let vectors = file["vectors"].as_array().unwrap();
    assert!(vectors.len() > 40, "the vectors are not all there");
    for vector in vectors {
        let name = vector["name"].as_str().unwrap();
        play(name, vector["steps"].as_array().unwrap());
    }
}

fn play(name: &str, steps: &[Value]) {
    let host = Host::of(&GREENROOM_MODULE);
    let subject = host.actor_named("Subject", "s");
    for (n, step) in steps.iter().enumerate() {
        let at = format!("{name}, step {n}: {step}");
        let (kind, value) = step.as_object().unwrap().iter().next().unwrap();
        match kind.as_str() {
            "call" if value["method"] == "PutReadOnly" || value["method"] == "RemindReadOnly" => {
                // A read-only method has nothing to write with: such an actor does not
                // compile, see testdata/diagnostics. The outcome is the same.
                assert_eq!(value["error"]["code"], "read_only", "{at}");
            }
            "call" => {
                let method = value["method"].as_str().unwrap();
                let payload = Payload::new("", value["payload"].as_str().unwrap());
                match subject.call_payload(method, payload) {
                    Ok(reply) => {
                        let reply = String::from_utf8(reply.body).unwrap();
                        assert_eq!(value["reply"], *reply, "{at}");
                    }
                    Err(error) => check(&error, &value["error"], &at),
                }
                let stored = subject.keys().into_iter().map(|key| {
                    let value = subject.get_bytes(&key).unwrap();
                    (key, Value::from(String::from_utf8(value).unwrap()))
                });
                assert_eq!(value["state"], Value::Object(stored.collect()), "{at}");
            }
            "advance_ms" => host.advance(Duration::from_millis(value.as_u64().unwrap())),
            "drop_memory" => host.drop_memory(),
            "deactivate" => subject.deactivate(),
            "set_state" => {
                let members = value.as_object().unwrap().iter();
                let members = members.map(|(k, v)| format!("{k:?}:{}", v.as_str().unwrap()));
                let members: Vec<String> = members.collect();
                subject.set_state(0, &format!("{{{}}}", members.join(",")));
            }
            "secret_hex" => {
                let hex = value.as_str().unwrap();
                let bytes = (0..hex.len()).step_by(2);
                let bytes = bytes.map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap());
                host.set_secret("key", &bytes.collect::<Vec<u8>>());
            }
            other => panic!("{at}: this test knows no step {other:?}"),
        }
    }
}

fn check(error: &Error, want: &Value, at: &str) {
    assert_eq!(want["status"], error.status() as u16, "{at}: {error:?}");
    assert_eq!(want["code"], error.code(), "{at}: {error:?}");
    if let Some(message) = want.get("message") {
        assert_eq!(message, error.message(), "{at}");
    }
    assert_eq!(want["retryable"], error.is_retryable(), "{at}");
    let delay = error.retry_delay().unwrap_or_default().as_millis() as u64;
    assert_eq!(want["retry_after_ms"], delay, "{at}");
    let detail = error.detail_payload().map_or(&[][..], |d| &d.body);
    assert_eq!(want["detail"], *String::from_utf8_lossy(detail), "{at}");
}
