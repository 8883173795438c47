//! An echo server on port 7 of an interface pair of its own: `sudo target/debug/examples/echo_server`, then `nc ADDRESS 7`.
//! It needs this crate alone.

use exos::{Attachment, Buffer, EventSet, Exos, LinkName, ListenOptions, signals::Signals};

fn main() -> Result<(), exos::Error> {
    let mut exos = Exos::attach(&Attachment::new(LinkName::default_here(), 7))?;
    let signals = Signals::catch()?;
    let listening = exos.stack.tcp.listen(None, 7, ListenOptions::default());
    listening.map_err(|e| exos::Error::new(e.to_string()))?;
    for address in exos.stack.addresses() {
        println!("{}", address.addr);
    }
    while !signals.stop_requested() {
        exos.receive();
        while let Some(event) = exos.stack.poll_event() {
            let (id, tcp) = (event.connection, &mut exos.stack.tcp);
            if event.set.contains(EventSet::READABLE) {
                let bytes = Buffer::from(tcp.readable(id));
                tcp.consume(id, bytes.len());
                tcp.send(id, bytes.into());
            }
            if event.set.contains(EventSet::FINISHED) {
                tcp.finish(id);
            }
        }
        exos.send()?;
        exos.wait(None, &[signals.fd()])?;
    }
    Ok(())
}
