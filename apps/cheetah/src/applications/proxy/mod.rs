//! HTTP/1.1 servers behind this one: requests for them, and their answers.
//!
//! A request is written again from what was understood of it, and so is an answer's head: no byte of a head passes as it came, so
//! nobody can have us and an upstream disagree on where a message ends (RFC 9112 §11.2).
//!
//! | file | what is in it |
//! |---|---|
//! | [`request`] | the head of a request for an upstream |
//! | [`forwarded`] | what an upstream is told of the client |
//! | [`answer`] | what an upstream answers, wherever it is cut |
//! | [`setting`] | fields that a rule sets in the place of the client's |
//! | [`redirects`] | what of that leads to the upstream itself |
//! | [`websocket`] | what a WebSocket that comes on a stream needs there |

pub mod answer;
pub mod forwarded;
pub mod redirects;
pub mod request;
pub mod setting;
pub mod websocket;

use std::sync::Arc;
use std::time::Duration;

use exos::wire::Prefix;

use self::setting::{SetField, Value};
use crate::caching::CacheRules;
use crate::limits::{
    UPSTREAM_CONNECT_TIME, UPSTREAM_FAIL_TIME, UPSTREAM_KEEP_TIME, UPSTREAM_TUNNEL_TIME,
};
use crate::secure::Fact;

/// How an upstream is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// What stands in the place of the rule's path, without a slash at its end; nothing where the target goes on as it came.
    pub base: Option<String>,
    /// The target goes on as it came, whatever the upstream may take it for.
    pub raw: bool,
    /// What its Host field says.
    pub host: HostField,
    /// Networks of other proxies, which are believed for whom they ask.
    pub trusted: Vec<Prefix>,
    /// Fields of requests that are written here in the place of the client's.
    pub set: Vec<SetField>,
    /// What it is told of the client's session of TLS, in which fields.
    pub tls_fields: Vec<(String, Fact)>,
    /// Fields of this kind in any rule: no client says anything in one.
    pub told: Vec<String>,
    /// Whether a client may change to another protocol (RFC 9110 §7.8).
    pub upgrades: bool,
    /// Which of its answers are kept, if any are.
    pub cache: Option<Arc<CacheRules>>,
    /// How upstreams are asked whether they are well, if they are.
    pub check: Option<CheckRules>,
    /// How long a connection may take to come to stand.
    pub connect_time: Duration,
    /// How long nobody may say anything after a change of protocol.
    pub tunnel_time: Duration,
    /// How long a connection is kept without a request.
    pub keep_time: Duration,
    /// How long others are asked instead of one that has failed.
    pub fail_time: Duration,
}

/// What the Host field of a request for an upstream says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostField {
    /// What the client says.
    Client,
    /// The upstream's address.
    Upstream,
    /// This.
    Named(String),
}

/// How upstreams of a rule are asked whether they are well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRules {
    /// What they are asked for, with its query.
    pub path: String,
    /// What the Host field says, if it is not their address.
    pub host: Option<String>,
    /// How often.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Failures in a row that put one out.
    pub fails: u32,
    /// Successes in a row that put it in again.
    pub passes: u32,
}

impl Proxy {
    /// An upstream is told of the session of TLS in this field, in which no client says anything.
    pub(super) fn is_told(&self, name: &str) -> bool {
        let own = self.tls_fields.iter().map(|(own, _)| own);
        let mut names = own.chain(&self.told);
        names.any(|told| told.eq_ignore_ascii_case(name))
    }

    /// The rule sets this field, in which its clients say nothing.
    pub(super) fn sets(&self, name: &str) -> bool {
        let mut set = self.set.iter();
        set.any(|field| field.name.eq_ignore_ascii_case(name))
    }

    /// The upstream is told something of a client by which its answers become that client's.
    pub fn tells_of_client(&self) -> bool {
        let mut values = self.set.iter().flat_map(|field| &field.values);
        !self.tls_fields.is_empty() || values.any(Value::depends_on_client)
    }
}

impl Default for Proxy {
    fn default() -> Proxy {
        Proxy {
            base: None,
            raw: false,
            host: HostField::Client,
            trusted: Vec::new(),
            set: Vec::new(),
            tls_fields: Vec::new(),
            told: Vec::new(),
            upgrades: true,
            cache: None,
            check: None,
            connect_time: UPSTREAM_CONNECT_TIME,
            tunnel_time: UPSTREAM_TUNNEL_TIME,
            keep_time: UPSTREAM_KEEP_TIME,
            fail_time: UPSTREAM_FAIL_TIME,
        }
    }
}
