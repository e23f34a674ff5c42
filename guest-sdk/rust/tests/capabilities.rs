//! Configuration, secrets and HTTP, as the test kit gives them.

use greenroom::testing::Host;
use greenroom::{Context, Error, ReadContext, Request, Response, Status};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

greenroom::record! {
    #[derive(Default)]
    pub struct Caller {
        calls: u32,
    }
}

impl Caller {
    fn region(&self, ctx: &ReadContext, name: String) -> Result<String, Error> {
        ctx.config(&name)
    }

    fn key(&self, ctx: &ReadContext, name: String) -> Result<String, Error> {
        ctx.secret(&name)
    }

    fn send(&mut self, ctx: &Context, url: String) -> Result<String, Error> {
        self.calls += 1;
        let request = Request::new("PUT", url)
            .header("X-Key", "k")
            .body("ping")
            .timeout(Duration::from_micros(1500))
            .no_redirects();
        let response = ctx.http().send(&request)?;
        assert!(response.is_success());
        let body = String::from_utf8_lossy(&response.body);
        Ok(format!("{body} {:?}", response.header("CONTENT-TYPE")))
    }

    fn fetch(&self, ctx: &ReadContext, url: String) -> Result<u16, Error> {
        Ok(ctx.http().get(&url)?.status)
    }

    fn push(&self, ctx: &ReadContext, url: String) -> Result<u16, Error> {
        Ok(ctx.http().post(&url, "text/plain", "x")?.status)
    }

    fn calls(&self, _: &ReadContext) -> Result<u32, Error> {
        Ok(self.calls)
    }
}

greenroom::actors! {
    Caller {
        methods: {
            "Region" => read_only region,
            "Key" => read_only key,
            "Send" => send,
            "Fetch" => read_only fetch,
            "Push" => read_only push,
            "Calls" => read_only calls,
        },
        capabilities: {
            http: ["*.example.com", "http://local:8080"],
            config: ["region"],
            secrets: ["key"],
        },
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().code().to_string()
}

#[test]
fn config_and_secrets_are_given_where_declared_and_set() {
    let host = Host::new();
    let caller = host.actor::<Caller>("a");
    let ask = |method: &str, name: &str| caller.query::<String>(method, name.to_string());
    assert_eq!(code(ask("Region", "region")), "not_set");
    assert_eq!(code(ask("Key", "key")), "not_set");
    let long = "v".repeat(1000);
    host.set_config("region", &long);
    host.set_secret("key", b"hush");
    host.set_config("other", "x");
    host.set_secret("other", b"x");
    assert_eq!(ask("Region", "region"), Ok(long));
    assert_eq!(ask("Key", "key"), Ok("hush".to_string()));
    for method in ["Region", "Key"] {
        let error = ask(method, "other").unwrap_err();
        assert_eq!(error.status(), Status::PermissionDenied, "{error}");
        assert_eq!(error.code(), "denied");
    }
    host.set_secret("key", &[0xff]);
    assert_eq!(code(ask("Key", "key")), "bad_text");
}

#[test]
fn requests_go_where_declared_and_granted() {
    let host = Host::new();
    let caller = host.actor::<Caller>("a");
    let send = |url: &str| caller.call::<String>("Send", url.to_string());
    assert_eq!(code(send("https://api.example.com/x")), "http_denied");
    let seen: Rc<RefCell<Vec<Request>>> = Rc::default();
    let log = seen.clone();
    host.handle_http(move |request| {
        log.borrow_mut().push(request.clone());
        if request.url.ends_with("/down") {
            return Err(Error::new(
                Status::Unavailable,
                "down",
                "connection refused",
            ));
        }
        Ok(Response::new(201)
            .with_header("Content-Type", "text/pong")
            .with_body("pong"))
    });
    let want = "pong Some(\"text/pong\")".to_string();
    assert_eq!(send("https://api.example.com/x"), Ok(want));
    assert_eq!(
        *seen.borrow(),
        [Request::new("PUT", "https://api.example.com/x")
            .header("x-key", "k")
            .body("ping")
            .timeout(Duration::from_millis(2))
            .no_redirects()]
    );
    assert_eq!(
        caller.query("Fetch", "http://local:8080/".to_string()),
        Ok(201u16)
    );
    for (url, want) in [
        ("https://example.org/", "http_denied"),
        ("https://example.com/", "http_denied"),
        ("http://api.example.com/", "http_denied"),
        ("/relative", "http_invalid_request"),
        ("https://api.example.com/down", "http_unreachable"),
    ] {
        assert_eq!(code(send(url)), want, "{url}");
    }
    let push = caller.query::<u16>("Push", "https://api.example.com/".to_string());
    assert_eq!(code(push), "http_read_only");
    assert_eq!(caller.query("Calls", ()), Ok(1u32));
}
