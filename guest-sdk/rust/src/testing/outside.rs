//! What an app was given, and where requests go, in tests.

use crate::capability::{Request, Response};
use crate::codec::{self, HttpResponseFrame};
use crate::error::Error;
use crate::host::Code;
use crate::spec::Capabilities;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

type Handler = Box<dyn Fn(&Request) -> Result<Response, Error>>;

/// What is outside of the actors.
#[derive(Default)]
pub(super) struct Outside {
    pub(super) config: RefCell<HashMap<String, String>>,
    pub(super) secrets: RefCell<HashMap<String, Vec<u8>>>,
    pub(super) http: RefCell<Option<Handler>>,
}

/// Gives a value to a type that declares it.
pub(super) fn given<T: AsRef<[u8]>>(
    name: &str,
    declared: &[&str],
    values: &HashMap<String, T>,
) -> Result<Vec<u8>, Code> {
    if !declared.contains(&name) {
        return Err(Code::DENIED);
    }
    let value = values.get(name).ok_or(Code::NOT_FOUND)?;
    Ok(value.as_ref().to_vec())
}

impl Outside {
    /// Answers a request frame with a response frame.
    pub(super) fn request(
        &self,
        frame: &[u8],
        uses: &Capabilities,
        read_only: bool,
    ) -> Result<Vec<u8>, Code> {
        let frame = codec::decode_http_request(frame).map_err(|_| Code::INVALID)?;
        let method = if frame.method.is_empty() {
            "GET"
        } else {
            frame.method
        };
        let refuse = |code, message: &str| {
            Ok(codec::encode_http_response(&HttpResponseFrame {
                code,
                message,
                ..HttpResponseFrame::default()
            }))
        };
        let target = match Target::of(frame.url) {
            Some(target) => target,
            None => return refuse("invalid_request", "the URL is not one of http or https"),
        };
        if !uses.http.iter().any(|rule| target.matches(rule)) {
            return refuse("denied", "the type's capabilities do not declare the host");
        }
        if read_only && method != "GET" && method != "HEAD" {
            let message = "a read-only method may send GET and HEAD alone";
            return refuse("read_only", message);
        }
        let handler = self.http.borrow();
        let handler = match handler.as_ref() {
            Some(handler) => handler,
            None => {
                let message = "the app was not granted the host; in this test, call handle_http";
                return refuse("denied", message);
            }
        };
        let millis = u64::from(frame.timeout_millis);
        let request = Request {
            method: method.to_string(),
            url: frame.url.to_string(),
            headers: owned(&frame.headers),
            body: frame.body.to_vec(),
            timeout: Some(Duration::from_millis(millis)).filter(|t| !t.is_zero()),
            no_redirects: frame.flags & codec::FLAG_NO_REDIRECTS != 0,
        };
        match handler(&request) {
            Ok(response) => Ok(codec::encode_http_response(&HttpResponseFrame {
                status: response.status,
                headers: owned(&borrowed(&response.headers))
                    .iter()
                    .map(|(n, v)| (n.as_str(), v.as_str()))
                    .collect(),
                body: &response.body,
                ..HttpResponseFrame::default()
            })),
            Err(error) => refuse("unreachable", error.message()),
        }
    }
}

fn borrowed(headers: &[(String, String)]) -> Vec<(&str, &str)> {
    let headers = headers.iter();
    headers.map(|(n, v)| (n.as_str(), v.as_str())).collect()
}

/// The headers with their names in lower case, as hosts give them.
fn owned(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    let headers = headers.iter();
    headers
        .map(|(n, v)| (n.to_ascii_lowercase(), v.to_string()))
        .collect()
}

/// Where a request goes, or what a rule lets through.
struct Target {
    scheme: String,
    host: String,
    port: String,
}

impl Target {
    fn of(url: &str) -> Option<Target> {
        let (scheme, rest) = url.split_once("://")?;
        let authority = rest.split(|c| "/?#".contains(c)).next()?;
        if authority.contains('@') {
            return None;
        }
        Target::parse(&format!("{scheme}://{authority}"))
    }

    /// Reads a host rule. A real host is stricter: see `abi/SPEC.md` section 3.
    fn parse(rule: &str) -> Option<Target> {
        let rule = rule.to_ascii_lowercase();
        let (scheme, rest) = rule.split_once("://").unwrap_or(("https", &rule));
        let usual = match scheme {
            "https" => "443",
            "http" => "80",
            _ => return None,
        };
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (rest, usual),
        };
        let host = host.trim_end_matches('.');
        if host.is_empty() {
            return None;
        }
        Some(Target {
            scheme: scheme.to_string(),
            host: host.to_string(),
            port: port.to_string(),
        })
    }

    fn matches(&self, rule: &str) -> bool {
        let rule = match Target::parse(rule) {
            Some(rule) => rule,
            None => return false,
        };
        let host = match rule.host.strip_prefix('*') {
            Some(below) => self.host.len() > below.len() && self.host.ends_with(below),
            None => self.host == rule.host,
        };
        host && self.scheme == rule.scheme && (rule.port == "*" || rule.port == self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn rules_match_as_on_a_host() {
        for (url, rule, want) in [
            ("https://a.example/x", "a.example", true),
            ("https://A.example.", "a.EXAMPLE:443", true),
            ("http://a.example", "a.example", false),
            ("http://a.example", "http://a.example", true),
            ("https://a.example:8443/", "a.example", false),
            ("https://a.example:8443/", "a.example:*", true),
            ("https://b.a.example", "*.a.example", true),
            ("https://a.example", "*.a.example", false),
            ("https://xa.example", "*.a.example", false),
            ("https://anything", "*", true),
            ("http://[::1]:80/", "http://[::1]", true),
        ] {
            assert_eq!(Target::of(url).unwrap().matches(rule), want, "{url} {rule}");
        }
        for url in [
            "a.example",
            "ftp://a.example",
            "https://u@a.example",
            "https:///x",
        ] {
            assert!(Target::of(url).is_none(), "{url}");
        }
    }
}
