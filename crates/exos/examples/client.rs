//! A client: connects, says something, prints what it gets until the server finishes.
//!
//! `cargo build -p exos --example client`. In one terminal `nc -l 9000` (or `nc -l -p 9000`), in another
//! `sudo target/debug/examples/client 9000 hello`: it connects to this host over an interface pair of its own.

use std::env::args;
use std::io::Write as _;
use std::net::SocketAddr;

use exos::{Buffer, EventSet, Exos, Options, OwnPair, Reason};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let usage = "usage: client PORT TEXT";
    let port = args().nth(1).ok_or(usage)?.parse()?;
    let text = args().nth(2).ok_or(usage)?;
    let mut exos = Exos::attach(OwnPair::new())?;
    // The host's addresses at its end of the pair: IPv4, then IPv6.
    let [host, _] = exos.pair().ok_or("no pair")?.host_addresses;
    let mut out = std::io::stdout();
    let show = |bytes: &[u8]| out.write_all(bytes);
    match run(&mut exos, SocketAddr::new(host.ip, port), &text, show)? {
        Reason::Done => Ok(()),
        other => Err(format!("the connection ended: {other:?}").into()),
    }
}

/// Says `text` to the server and shows what it answers. Returns why the connection is over.
pub fn run(
    exos: &mut Exos,
    server: SocketAddr,
    text: &str,
    mut show: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<Reason, Error> {
    // `None`: the stack chooses our address and port. This only begins; that it stands is an event.
    let options = Options::default();
    let id = exos.stack.tcp.connect(exos.now(), None, server, &options)?;
    loop {
        exos.send()?;
        exos.wait(None, &[])?;
        exos.receive();
        while let Some(event) = exos.stack.poll_event() {
            let tcp = &mut exos.stack.tcp;
            if event.set.contains(EventSet::CONNECTED) {
                tcp.send(id, Buffer::from(text.as_bytes()).into());
                tcp.finish(id); // The server sees the end behind the text, and may answer yet.
            }
            let bytes = tcp.readable(id);
            show(bytes)?;
            let count = bytes.len();
            tcp.consume(id, count);
            if event.set.contains(EventSet::CLOSED) {
                return Ok(event.reason);
            }
        }
    }
}
