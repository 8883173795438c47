//! Calls: requests to the authority, over HTTPS, by the server's own stack or by the host's sockets.
//!
//! The thread that gets certificates makes a [`Call`] and waits for its answer. Where the server has a stack that leads to others, the
//! first loop makes it ([`on_stack`]), asked by the [`desk`] that both have; where there is no stack, or it does not lead there, the
//! thread makes it itself over the host's sockets ([`on_host`]). What is said is the same: one state machine ([`exchange`]) on either.
//!
//! A connection carries one request: an order takes a dozen, some times a month, and resumed sessions make them cheap.
//!
//! | file | what is in it |
//! |---|---|
//! | [`exchange`] | TLS and HTTP on one connection: bytes in, bytes out |
//! | [`proxy`] | through which proxy, by `HTTPS_PROXY` |
//! | [`desk`] | what the thread and the loop hand each other |
//! | [`on_stack`] | a call by the loop's stack |
//! | [`on_host`] | a call by the host's sockets |

mod desk;
mod exchange;
mod on_host;
mod on_stack;
mod proxy;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use exos_tls::client::Client;

use crate::applications::head::Head;
use crate::limits::ACME_REQUEST_TIME;
pub(crate) use desk::Desk;
pub(crate) use on_stack::{Caller, TOKEN};
use proxy::Proxy;
pub(super) use proxy::{bare, of_environment};

/// A request, and the authority that it is for.
#[derive(Clone)]
pub(super) struct Call {
    /// Makes sessions with the authority.
    pub(super) client: Client,
    /// Its name or address, and its port.
    pub(super) host: String,
    pub(super) port: u16,
    /// Through this one, where the host wants that.
    pub(super) proxy: Option<Arc<Proxy>>,
    /// The request.
    pub(super) words: Vec<u8>,
    /// It is HEAD.
    pub(super) asks_head: bool,
}

/// The answer to a call.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) head: Head,
    pub(super) body: Vec<u8>,
}

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum CallError {
    /// Nobody was reached, so nothing was asked: it may be asked in another way.
    Unreached(String),
    /// It was reached.
    Failed(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (CallError::Unreached(what) | CallError::Failed(what)) = self;
        f.write_str(what)
    }
}

impl std::error::Error for CallError {}

/// How calls are made by a process.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// Where the server has a stack.
    pub(super) desk: Option<Arc<Desk>>,
    by_stack: AtomicU64,
    by_host: AtomicU64,
}

impl Ways {
    /// By a stack, whose loop looks at this desk; or by the host alone.
    pub(super) fn by(desk: Option<Arc<Desk>>) -> Ways {
        Ways {
            desk,
            ..Ways::default()
        }
    }

    /// Calls that were answered by the server's stack, and by the host's sockets.
    pub(super) fn counts(&self) -> (u64, u64) {
        let count = |it: &AtomicU64| it.load(Ordering::Relaxed);
        (count(&self.by_stack), count(&self.by_host))
    }

    /// Makes a call. `by_host` says that the stack did not lead there before, and is set when it does not now.
    ///
    /// # Errors
    ///
    /// There is no answer.
    pub(super) fn call(&self, call: Call, by_host: &mut bool) -> Result<Answered, CallError> {
        let addresses = addresses(&call).map_err(CallError::Unreached)?;
        let desk = self.desk.as_ref().filter(|_| !*by_host);
        let stack = match desk.map(|desk| desk.ask(&call, &addresses)) {
            Some(Err(CallError::Unreached(why))) => Some(why),
            Some(made) => {
                self.by_stack.fetch_add(1, Ordering::Relaxed);
                return made;
            }
            None => None,
        };
        *by_host = true;
        // All of it, also where the stack has taken some.
        let until = Instant::now() + ACME_REQUEST_TIME;
        let made = on_host::call(&call, &addresses, until);
        self.by_host.fetch_add(1, Ordering::Relaxed);
        match (made, stack) {
            (Err(CallError::Unreached(host)), Some(stack)) => Err(CallError::Unreached(format!(
                "{host}, by the host's sockets; by this server's own stack, {stack}"
            ))),
            (made, Some(stack)) => {
                exos_program::info!(
                    "exos serve: the authority of certificates is asked by the host's sockets: by this server's own stack, {stack}"
                );
                made
            }
            (made, None) => made,
        }
    }
}

/// Where to connect for a call. Names are looked up as those of upstreams are, by the host's name servers.
fn addresses(call: &Call) -> Result<Vec<IpAddr>, String> {
    let name = match &call.proxy {
        Some(proxy) => &proxy.host,
        None => &call.host,
    };
    exos_program::names::look_up("serve", name).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use exos_tls::client::Trust;

    use super::*;

    /// A call of an authority that is trusted so.
    pub(super) fn call(trust: &Trust) -> Call {
        Call {
            client: Client::new(trust, "ca.test", &["http/1.1"]).unwrap(),
            host: "ca.test".to_owned(),
            port: 443,
            proxy: None,
            words: b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            asks_head: false,
        }
    }
}
