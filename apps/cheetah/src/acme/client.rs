//! Requests to the authority, by HTTPS over the host's sockets. They wait, which is the thread's own time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use exos::Error;
use exos_tls::client::Trust;
use exos_tls::policy::provider;
use http::{Method, Request};
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::limits::{ACME_ANSWER_LEN_MAX, ACME_REQUEST_TIME};

/// What reaches the authority.
#[derive(Clone)]
pub(super) struct Client {
    agent: Agent,
    /// How long the authority has said to wait, in its last answer that has refused something.
    retry_after: Arc<Mutex<Option<Duration>>>,
}

impl Client {
    /// One that trusts these authorities of TLS.
    pub(super) fn new(trust: &Trust) -> Result<Client, Error> {
        let roots = trust.certificates()?;
        let roots = roots
            .iter()
            .map(|der| Certificate::from_der(der).to_owned());
        let roots = roots.collect::<Vec<_>>();
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .unversioned_rustls_crypto_provider(provider(&[]));
        let config = Agent::config_builder()
            .https_only(true) // RFC 8555 §6.1
            .http_status_as_error(false)
            .timeout_global(Some(ACME_REQUEST_TIME))
            .tls_config(tls.build());
        Ok(Client {
            agent: config.build().new_agent(),
            retry_after: Arc::default(),
        })
    }

    /// How long the authority has said to wait, if its last answer did.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        *self.last()
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<Duration>> {
        self.retry_after
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, request: Request<Vec<u8>>) -> Result<BytesResponse, ureq::Error> {
        let sent = match *request.method() {
            Method::POST => self.agent.run(request),
            _ => self.agent.run(request.map(drop)),
        };
        let (parts, mut body) = sent?.into_parts();
        let is_refused = !parts.status.is_success();
        *self.last() = is_refused.then(|| wait_of(&parts.headers)).flatten();
        let body = body
            .with_config()
            .limit(ACME_ANSWER_LEN_MAX)
            .read_to_vec()?;
        Ok(BytesResponse {
            parts,
            body: Box::new(Bytes::from(body)),
        })
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>>
    {
        let client = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let other = instant_acme::Error::Other;
            // What gives the bytes of such a body is there for responses alone.
            let mut body = BytesResponse::from(http::Response::new(body)).body;
            let body = body.into_bytes().await.map_err(other)?;
            let request = Request::from_parts(parts, body.to_vec());
            client.send(request).map_err(|e| other(Box::new(e)))
        })
    }
}

/// What `Retry-After` says: seconds, or a date (RFC 9110 §10.2.3).
fn wait_of(fields: &http::HeaderMap) -> Option<Duration> {
    let value = fields.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim();
    let until = |date: SystemTime| date.duration_since(SystemTime::now()).ok();
    match value.parse() {
        Ok(secs) => Some(Duration::from_secs(secs)),
        Err(_) => httpdate::parse_http_date(value).ok().and_then(until),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_seconds_or_dates() {
        let wait = |value: &str| {
            let mut fields = http::HeaderMap::new();
            fields.insert(http::header::RETRY_AFTER, value.parse().unwrap());
            wait_of(&fields)
        };
        assert_eq!(wait(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(wait("soon"), None);
        assert_eq!(wait("Fri, 31 Dec 1999 23:59:59 GMT"), None, "it is over");
        let later = SystemTime::now() + Duration::from_secs(7200);
        let until = wait(&httpdate::fmt_http_date(later)).unwrap();
        assert!(until.as_secs().abs_diff(7200) <= 1, "{until:?}");
        assert_eq!(wait_of(&http::HeaderMap::new()), None);
    }
}
