//! Names, for tasks: lookups and connections by name on the stack's own resolver.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll};

use exos::names::Families;
use exos::net::Names;
use exos::{Instant, Options, clock};

use crate::stream::TcpStream;

/// The addresses of a name; IPv6 first.
///
/// # Errors
///
/// As [`Names::lookup`].
pub async fn lookup(names: &Names, name: &str, families: Families) -> io::Result<Vec<IpAddr>> {
    let mut lookup = names.begin_lookup(name, families)?;
    until_done(|cx| (lookup.poll(cx), lookup.deadline())).await
}

impl TcpStream {
    /// Opens a connection to a name's address that answers first (RFC 8305).
    ///
    /// # Errors
    ///
    /// Those of the lookup; the last address's, where none can be reached.
    pub async fn connect_name(names: &Names, name: &str, port: u16) -> io::Result<Self> {
        let mut connect = names.begin_connect(name, port, Options::default())?;
        let stream = until_done(|cx| (connect.poll(cx), connect.deadline())).await?;
        Ok(Self::from_net(stream))
    }
}

/// Polls until there is a result: when woken, and when the time has come that is given with each poll.
async fn until_done<T>(mut poll: impl FnMut(&mut Context<'_>) -> (Poll<T>, Option<Instant>)) -> T {
    let mut timer = pin!(tokio::time::sleep_until(tokio::time::Instant::now()));
    poll_fn(|cx| {
        loop {
            let (done, deadline) = poll(cx);
            if done.is_ready() {
                return done;
            }
            let Some(deadline) = deadline else {
                return Poll::Pending;
            };
            let left = deadline - clock::now();
            timer.as_mut().reset(tokio::time::Instant::now() + left);
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await
}
