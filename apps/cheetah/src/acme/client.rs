//! Requests to the authority as `instant-acme` makes them, and their answers: [calls].

use std::collections::HashMap;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use exos::Error;
use exos_tls::client::{Client as Sessions, Trust};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use instant_acme::{BodyWrapper, BytesResponse, Error as AcmeError, HttpClient};

use super::calls::{self, Answered, Call, CallError, Ways};
use crate::limits::ACME_WAIT_MAX;

/// What is spoken with authorities.
const PROTOCOLS: [&str; 1] = ["http/1.1"];

/// The port of HTTPS.
const PORT: u16 = 443;

/// What reaches the authority.
#[derive(Clone)]
pub(super) struct Client {
    trust: Trust,
    ways: Arc<Ways>,
    state: Arc<Mutex<State>>,
}

/// What it knows.
#[derive(Default)]
struct State {
    /// What makes sessions with each host.
    sessions: HashMap<String, Sessions>,
    /// The server's stack does not lead there.
    by_host: bool,
    /// How long the authority has said to wait, in its last answer that has refused something.
    retry_after: Option<Duration>,
}

impl Client {
    /// One that trusts these authorities of TLS.
    pub(super) fn new(trust: Trust, ways: Arc<Ways>) -> Client {
        Client {
            trust,
            ways,
            state: Arc::default(),
        }
    }

    /// How long the authority has said to wait, if its last answer did that has refused something.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.state().retry_after
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What makes sessions with a host.
    fn sessions(&self, host: &str) -> Result<Sessions, Error> {
        let mut state = self.state();
        if let Some(sessions) = state.sessions.get(host) {
            return Ok(sessions.clone());
        }
        let sessions = Sessions::new(&self.trust, host, &PROTOCOLS)?;
        state.sessions.insert(host.to_owned(), sessions.clone());
        Ok(sessions)
    }

    fn send(&self, request: &Request<Vec<u8>>) -> Result<BytesResponse, CallError> {
        let call = self.call(request).map_err(CallError::Failed)?;
        let mut by_host = self.state().by_host;
        let made = self.ways.call(call, &mut by_host);
        self.state().by_host = by_host;
        let mut response = response_of(made?).map_err(CallError::Failed)?;
        bound_wait(response.headers_mut());
        if !response.status().is_success() {
            // What is asked then, what has become of an order say, is about the same.
            self.state().retry_after = wait_of(response.headers());
        }
        let (parts, body) = response.into_parts();
        Ok(BytesResponse {
            parts,
            body: Box::new(Bytes::from(body)),
        })
    }

    /// A request as it is sent.
    fn call(&self, request: &Request<Vec<u8>>) -> Result<Call, String> {
        let uri = request.uri();
        let authority = uri.authority().filter(|it| !it.host().is_empty());
        // RFC 8555 §6.1.
        let is_https = uri.scheme_str() == Some("https");
        let authority = authority.filter(|_| is_https);
        let Some(authority) = authority else {
            return Err(format!("{uri} is no URL of HTTPS"));
        };
        let host = calls::bare(authority.host()).to_owned();
        let proxy = calls::of_environment(&host)?;
        Ok(Call {
            client: self.sessions(&host).map_err(|error| error.to_string())?,
            port: authority.port_u16().unwrap_or(PORT),
            proxy: proxy.map(Arc::new),
            words: words(request),
            asks_head: *request.method() == Method::HEAD,
            host,
        })
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, AcmeError>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let other = AcmeError::Other;
            // What gives the bytes of such a body is there for responses alone.
            let mut body = BytesResponse::from(Response::new(body)).body;
            let body = body.into_bytes().await.map_err(other)?;
            let request = Request::from_parts(parts, body.to_vec());
            client.send(&request).map_err(|e| other(Box::new(e)))
        })
    }
}

/// A request as it is written (RFC 9112 §3). Its connection is for it alone.
fn words(request: &Request<Vec<u8>>) -> Vec<u8> {
    let uri = request.uri();
    let path = uri.path_and_query().map_or("/", |it| it.as_str());
    let mut head = format!("{} {path} HTTP/1.1\r\n", request.method());
    let authority = uri.authority().map_or("", |it| it.as_str());
    let host = authority.rsplit_once('@').map_or(authority, |(_, it)| it);
    let _ = write!(head, "Host: {host}\r\nConnection: close\r\n");
    let mut words = head.into_bytes();
    for (name, value) in request.headers() {
        words.extend_from_slice(name.as_str().as_bytes());
        words.extend_from_slice(b": ");
        words.extend_from_slice(value.as_bytes());
        words.extend_from_slice(b"\r\n");
    }
    let body = request.body();
    if !body.is_empty() || *request.method() == Method::POST {
        words.extend(format!("Content-Length: {}\r\n", body.len()).into_bytes());
    }
    words.extend_from_slice(b"\r\n");
    words.extend_from_slice(body);
    words
}

/// An answer as `instant-acme` reads it.
fn response_of(answered: Answered) -> Result<Response<Vec<u8>>, String> {
    let Answered { head, body } = answered;
    let mut response = Response::new(body);
    let status = http::StatusCode::from_u16(head.code);
    *response.status_mut() = status.map_err(|e| e.to_string())?;
    for line in head.fields.split(|&b| b == b'\n') {
        let line = line.trim_ascii();
        let Some(at) = line.iter().position(|&b| b == b':') else {
            continue;
        };
        let name = HeaderName::from_bytes(&line[..at]);
        let value = HeaderValue::from_bytes(line[at + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}

/// What `Retry-After` says: seconds, or a date (RFC 9110 §10.2.3). It is a day at most.
fn wait_of(fields: &HeaderMap) -> Option<Duration> {
    let value = fields.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim();
    let is_number = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    let wait = match is_number {
        true => Duration::from_secs(value.parse().unwrap_or(u64::MAX)),
        false => {
            let date = httpdate::parse_http_date(value).ok()?;
            // One that is over: at once.
            date.duration_since(SystemTime::now()).unwrap_or_default()
        }
    };
    Some(wait.min(ACME_WAIT_MAX))
}

/// Has `Retry-After` say so in seconds, or not be there where nothing can be made of it: `instant-acme` reckons with any number.
fn bound_wait(fields: &mut HeaderMap) {
    let wait = wait_of(fields);
    fields.remove(http::header::RETRY_AFTER);
    if let Some(wait) = wait {
        fields.insert(http::header::RETRY_AFTER, wait.as_secs().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applications::head::Head;

    #[test]
    fn waits_are_seconds_or_dates() {
        let wait = |value: &str| {
            let mut fields = HeaderMap::new();
            fields.insert(http::header::RETRY_AFTER, value.parse().unwrap());
            wait_of(&fields)
        };
        assert_eq!(wait(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(wait("soon"), None);
        let over = wait("Fri, 31 Dec 1999 23:59:59 GMT");
        assert_eq!(over, Some(Duration::ZERO), "it is over");
        let later = SystemTime::now() + Duration::from_secs(7200);
        let until = wait(&httpdate::fmt_http_date(later)).unwrap();
        assert!(until.as_secs().abs_diff(7200) <= 1, "{until:?}");
        assert_eq!(wait_of(&HeaderMap::new()), None);
    }

    #[test]
    fn no_wait_is_longer_than_a_day() {
        let max = u64::MAX.to_string();
        for (said, wanted) in [
            (&*max, Some("86400")),
            ("9000000000000000000", Some("86400")),
            ("99999999999999999999999999", Some("86400")),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some("86400")),
            ("Fri, 31 Dec 1999 23:59:59 GMT", Some("0")),
            ("7", Some("7")),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            let mut fields = HeaderMap::new();
            fields.insert(http::header::RETRY_AFTER, said.parse().unwrap());
            bound_wait(&mut fields);
            let now = fields.get(http::header::RETRY_AFTER);
            assert_eq!(now.map(|it| it.to_str().unwrap()), wanted, "{said}");
        }
    }

    #[test]
    fn requests_are_written_and_answers_read() {
        let request = Request::builder()
            .method(Method::POST)
            .uri("https://user@ca.test:14000/order?x=1")
            .header("content-type", "application/jose+json")
            .body(b"{}".to_vec())
            .unwrap();
        let text = String::from_utf8(words(&request)).unwrap();
        assert_eq!(
            text,
            "POST /order?x=1 HTTP/1.1\r\nHost: ca.test:14000\r\nConnection: close\r\n\
             content-type: application/jose+json\r\nContent-Length: 2\r\n\r\n{}"
        );
        let get = Request::builder().uri("https://ca.test").body(Vec::new());
        let text = String::from_utf8(words(&get.unwrap())).unwrap();
        assert_eq!(
            text,
            "GET / HTTP/1.1\r\nHost: ca.test\r\nConnection: close\r\n\r\n"
        );
        let head = Head {
            code: 201,
            reason: "".into(),
            length: None,
            fields: b"Replay-Nonce: a\r\nLink: <b>;c:d\r\nlink: e\r\n".to_vec(),
            said: None,
        };
        let body = b"x".to_vec();
        let response = response_of(Answered { head, body }).unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(response.headers()["replay-nonce"], "a");
        let links: Vec<_> = response.headers().get_all("link").iter().collect();
        assert_eq!(links, ["<b>;c:d", "e"]);
    }

    #[test]
    fn only_https_is_asked() {
        let client = Client::new(Trust::Anybody, Arc::default());
        for (url, is_good) in [
            ("https://ca.test/dir", true),
            ("https://[::1]:14000/dir", true),
            ("http://ca.test/dir", false),
            ("/dir", false),
        ] {
            let request = Request::builder().uri(url).body(Vec::new()).unwrap();
            let call = client.call(&request);
            assert_eq!(call.is_ok(), is_good, "{url}");
        }
    }
}
