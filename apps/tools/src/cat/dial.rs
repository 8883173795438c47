//! Opens one connection to the address of a host that answers first (RFC 8305).

use std::net::{IpAddr, SocketAddr};

use exos::names::{Connector, Family};
use exos::signals::Signals;
use exos::{Error, Exos};
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Event, EventSet, Options};
use exos_program::{taken_back, tell_news};

use crate::run::failed;

/// What is tried, and how.
pub struct Dial {
    connector: Connector,
    /// The host's port.
    port: u16,
    /// From which port of ours; any where none is named.
    from: Option<u16>,
    options: Options,
    attempts: Vec<(ConnectionId, SocketAddr)>,
    /// Why the last attempt has failed.
    failure: Option<Error>,
}

impl Dial {
    /// To one of these addresses, of which there is one at least.
    pub fn new(
        now: Instant,
        addresses: &[IpAddr],
        port: u16,
        from: Option<u16>,
        options: Options,
    ) -> Self {
        let mut connector = Connector::new(None);
        for family in [Family::Ipv6, Family::Ipv4] {
            let of_family = addresses.iter().filter(|ip| Family::of(**ip) == family);
            connector.handle_family(now, family, &of_family.copied().collect::<Vec<_>>());
        }
        Self {
            connector,
            port,
            from,
            options,
            attempts: Vec::new(),
            failure: None,
        }
    }

    /// Runs the stack until a connection stands; gives the event that says so, and with whom. What else is in that event, and what comes
    /// behind it, is left to the caller. `None` when a signal has asked to stop.
    ///
    /// # Errors
    ///
    /// No address can be reached: why the last one cannot; the link has gone.
    pub fn run(
        mut self,
        exos: &mut Exos,
        signals: &Signals,
    ) -> Result<Option<(Event, SocketAddr)>, Error> {
        loop {
            self.begin_due(exos);
            if self.connector.has_failed() {
                return Err(self.failure.expect("an address has failed"));
            }
            exos.send()?;
            exos.wait(self.connector.poll_timeout(), &[signals.fd()])?;
            if signals.stop_requested() {
                self.abort_others(exos, None);
                return Ok(None);
            }
            exos.receive();
            while let Some(event) = exos.stack.poll_event() {
                if let Some(to) = self.handle_event(exos.now(), &event) {
                    self.abort_others(exos, Some(event.connection));
                    return Ok(Some((event, to)));
                }
            }
            if tell_news("cat", exos) {
                return Err(taken_back());
            }
        }
    }

    fn begin_due(&mut self, exos: &mut Exos) {
        let now = exos.now();
        while let Some(ip) = self.connector.poll_attempt(now) {
            let to = SocketAddr::new(ip, self.port);
            match self.open(exos, to) {
                Ok(id) => self.attempts.push((id, to)),
                Err(error) => {
                    self.failure = Some(error);
                    self.connector.handle_failed(now, ip);
                }
            }
        }
    }

    fn open(&self, exos: &mut Exos, to: SocketAddr) -> Result<ConnectionId, Error> {
        let source = exos.source(to, self.from)?;
        let (now, tcp) = (exos.now(), &mut exos.stack.tcp);
        let opened = tcp.connect(now, source, to, &self.options);
        opened.map_err(|e| Error::new(format!("cannot connect to {to}: {e}")))
    }

    /// With whom a connection stands, if the event says so.
    fn handle_event(&mut self, now: Instant, event: &Event) -> Option<SocketAddr> {
        let mut attempts = self.attempts.iter();
        let at = attempts.position(|(id, _)| *id == event.connection)?;
        let (_, to) = self.attempts[at];
        if event.set.contains(EventSet::CONNECTED) {
            return Some(to);
        }
        if event.set.contains(EventSet::CLOSED) {
            self.attempts.swap_remove(at);
            self.failure = Some(failed(to, event.reason));
            self.connector.handle_failed(now, to.ip());
        }
        None
    }

    fn abort_others(&self, exos: &mut Exos, but: Option<ConnectionId>) {
        let others = self.attempts.iter().map(|(id, _)| *id);
        others
            .filter(|id| Some(*id) != but)
            .for_each(|id| exos.stack.tcp.abort(id));
    }
}
