//! A ledger: an actor written as an Extism plug-in with the Rust PDK. Its manifest
//! is in a file of its own, given at upload: `greenroom deploy --manifest`.

use extism_pdk::*;
use serde::{Deserialize, Serialize};

#[host_fn]
extern "ExtismHost" {
    fn greenroom_state_get(key: &str) -> Vec<u8>;
    fn greenroom_state_set(key: &str, value: Json<i64>);
    fn greenroom_fail(error: Json<Failure>);
    fn greenroom_send(message: Json<Message>);
}

// A function that gives or takes a number, rather than a block of memory, is
// declared as it is: host_fn would take the number for an address.
#[link(wasm_import_module = "extism:host/user")]
extern "C" {
    fn greenroom_now() -> u64;
}

/// What the caller of a refused turn gets.
#[derive(Serialize)]
struct Failure {
    status: &'static str,
    code: &'static str,
    message: String,
}

#[derive(Serialize, Deserialize)]
struct Amount {
    cents: u32,
}

/// A message to another actor.
#[derive(Serialize)]
struct Message {
    r#type: &'static str,
    id: String,
    method: &'static str,
    input: Amount,
    undelivered: &'static str,
}

#[derive(Deserialize)]
struct Payment {
    to: String,
    cents: u32,
}

#[derive(Serialize)]
struct Balance {
    cents: i64,
}

fn stored() -> Result<i64, Error> {
    let value = unsafe { greenroom_state_get("cents")? };
    Ok(if value.is_empty() {
        0
    } else {
        serde_json::from_slice(&value)?
    })
}

fn store(cents: i64) -> FnResult<Json<Balance>> {
    unsafe { greenroom_state_set("cents", Json(cents))? };
    Ok(Json(Balance { cents }))
}

#[plugin_fn]
pub fn deposit(Json(amount): Json<Amount>) -> FnResult<Json<Balance>> {
    store(stored()? + i64::from(amount.cents))
}

#[plugin_fn]
pub fn withdraw(Json(amount): Json<Amount>) -> FnResult<Json<Balance>> {
    take(amount)
}

/// Withdraws, and has another ledger deposit: the message leaves with the turn, or not at
/// all. What that one does not take comes back.
#[plugin_fn]
pub fn pay(Json(payment): Json<Payment>) -> FnResult<Json<Balance>> {
    let balance = take(Amount {
        cents: payment.cents,
    })?;
    let message = Message {
        r#type: "Ledger",
        id: payment.to,
        method: "deposit",
        input: Amount {
            cents: payment.cents,
        },
        undelivered: "deposit",
    };
    unsafe { greenroom_send(Json(message))? };
    Ok(balance)
}

fn take(amount: Amount) -> FnResult<Json<Balance>> {
    let cents = stored()?;
    let left = cents - i64::from(amount.cents);
    if left < 0 {
        let failure = Failure {
            status: "failed_precondition",
            code: "overdrawn",
            message: format!("{} cents are wanted, {} are there", amount.cents, cents),
        };
        unsafe { greenroom_fail(Json(failure))? };
        return Err(WithReturnCode::new(Error::msg("overdrawn"), 1));
    }
    store(left)
}

#[plugin_fn]
pub fn balance(_: ()) -> FnResult<Json<Balance>> {
    Ok(Json(Balance { cents: stored()? }))
}

/// Keeps a text in one of Extism's variables, which are the actor's state here,
/// and replies with the time of the turn and the text that it kept before.
#[plugin_fn]
pub fn note(text: String) -> FnResult<String> {
    let before: Option<String> = var::get("note")?;
    var::set("note", &text)?;
    let now = unsafe { greenroom_now() };
    info!("noted at {}", now);
    Ok(format!("{} {}", now, before.unwrap_or_default()))
}

// What the PDK's feature http calls, which needs crates that Rust 1.63 lacks.
#[link(wasm_import_module = "extism:host/env")]
extern "C" {
    fn http_request(request: u64, body: u64) -> u64;
    fn http_status_code() -> i32;
}

#[host_fn]
extern "ExtismHost" {
    fn greenroom_secret_get(name: &str) -> String;
}

/// Posts the balance to where the app's configuration says, with a secret of the
/// app, and replies with the answer's status and text.
#[plugin_fn]
pub fn report(_: ()) -> FnResult<String> {
    let url = config::get("report_url")?.unwrap_or_default();
    let key = unsafe { greenroom_secret_get("report_key")? };
    let request = serde_json::json!({
        "url": url,
        "method": "POST",
        "headers": {"authorization": format!("Bearer {key}")},
    });
    let request = Memory::from_bytes(serde_json::to_vec(&request)?)?;
    let body = Memory::from_bytes(serde_json::to_vec(&Balance { cents: stored()? })?)?;
    let answer = unsafe { http_request(request.offset(), body.offset()) };
    let text = Memory::find(answer).map_or(String::new(), |m| {
        String::from_utf8_lossy(&m.to_vec()).into_owned()
    });
    Ok(format!("{} {}", unsafe { http_status_code() }, text))
}
