//! A web server in the client's own loop, on an interface of another namespace: both ends of what is in the middle.
//!
//! Two programs on one core take turns when the scheduler says so, and each looks for packets in the other's time. One loop
//! that turns to the one and then to the other does neither: what it was busy for is what both ends needed, and a request
//! waits for nobody but the program in the middle. The server is our stack, with the least of a web server on it: what ends
//! with an empty line is a request, and gets the document.

use super::settings::{BesideSettings, Visit};
use crate::stage::helper::say;
use crate::stage::link::interface_with;
use crate::stage::request::{Connection, Size, body};
use exos::{Exos, clock};
use exos_buf::{Buffer, Slice};
use exos_host::netns::NetNs;
use exos_host::{Error, Result};
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::Duration;

/// How often it is looked whether the client may begin.
const GO_EVERY: Duration = Duration::from_millis(1);

/// The server, where there is one.
pub(super) struct Beside {
    exos: Exos,
    answering: Answering,
    go: PathBuf,
}

/// What it does with requests.
struct Answering {
    head: Slice,
    body: Slice,
    /// Each connection is for one request.
    once: bool,
}

impl Beside {
    /// Opens it where the settings say; the thread is in the client's namespace again afterwards.
    pub fn open(visit: &Visit) -> Result<Option<Self>> {
        let Some(BesideSettings { netns, at, go }) = &visit.beside else {
            return Ok(None);
        };
        let there = NetNs::find(netns)?;
        let there = there.ok_or_else(|| Error::new(format!("there is no namespace {netns}")))?;
        let own = NetNs::current()?;
        there.enter()?;
        let exos = listen(*at);
        own.enter()?;
        Ok(Some(Self {
            exos: exos?,
            answering: Answering::new(visit.size, visit.kind),
            go: go.clone(),
        }))
    }

    /// Says that it listens, and answers until the client may begin.
    pub fn await_go(&mut self) -> Result<()> {
        say("listening")?;
        while !self.go.exists() {
            self.turn()?;
            std::thread::sleep(GO_EVERY);
        }
        Ok(())
    }

    /// A turn; true when it moved frames.
    pub fn turn(&mut self) -> Result<bool> {
        let exos = &mut self.exos;
        let got = exos.receive();
        while let Some(event) = exos.stack.poll_event() {
            if event.set.contains(EventSet::READABLE) {
                self.answering.answer(exos, event.connection);
            }
        }
        let sent = exos.send()?;
        exos.look_on(Some(clock::now()), &[])?;
        Ok(got > 0 || sent > 0)
    }
}

fn listen(at: SocketAddrV4) -> Result<Exos> {
    let ip = (*at.ip()).into();
    let mut exos = Exos::attach(interface_with(ip)?)?;
    let options = ListenOptions::default();
    let listening = exos.stack.tcp.listen(None, at.port(), options);
    listening.map_err(|e| Error::new(format!("cannot listen at {at}: {e}")))?;
    Ok(exos)
}

impl Answering {
    fn new(size: Size, kind: Connection) -> Self {
        let once = kind == Connection::New;
        let close = if once { "Connection: close\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n{close}\r\n",
            size.bytes()
        );
        let [head, body] = [head.into_bytes(), body(size)].map(|bytes| {
            let buffer = Buffer::from(bytes);
            buffer.prepare_sums();
            Slice::from(buffer)
        });
        Self { head, body, once }
    }

    fn answer(&self, exos: &mut Exos, id: ConnectionId) {
        let tcp = &mut exos.stack.tcp;
        let readable = tcp.readable(id);
        // A client waits for the answer before it asks again.
        if !readable.ends_with(b"\r\n\r\n") {
            return;
        }
        tcp.consume(id, readable.len());
        tcp.send(id, self.head.clone());
        if !self.body.is_empty() {
            tcp.send(id, self.body.clone());
        }
        if self.once {
            tcp.finish(id);
        }
    }
}
