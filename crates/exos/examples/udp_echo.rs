//! Datagrams: sends each back to whom it came from, on UDP port 7 of an interface pair of its own.
//!
//! `cargo build -p exos --example udp_echo`, then `sudo target/debug/examples/udp_echo`, which prints its addresses;
//! `nc -u ADDRESS 7` gets back what one types.

use exos::{Buffer, Exos, OwnPair, signals::Signals};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let mut exos = Exos::attach(OwnPair::new())?;
    let signals = Signals::catch()?;
    for address in exos.stack.addresses() {
        println!("{}", address.addr);
    }
    run(&mut exos, || signals.stop_requested())
}

/// Answers until `is_over`, which it asks at least once a second: no sleep is longer, and a signal ends it.
pub fn run(exos: &mut Exos, is_over: impl Fn() -> bool) -> Result<(), Error> {
    let socket = exos.stack.udp.bind(None, 7)?;
    while !is_over() {
        exos.receive();
        // Datagrams wait in their socket. With several of these, `udp.poll_readable()` says which have some.
        while let Some(datagram) = exos.stack.udp.receive(socket)? {
            let payload = Buffer::from(datagram.payload).into();
            // From the address that was asked: we may have several.
            let (from, to) = (Some(datagram.to), datagram.from);
            let now = exos.now();
            if let Err(e) = exos.stack.udp_send(now, socket, from, to, payload) {
                eprintln!("{e}"); // A stranger may say that it came from port 0: no reason to end.
            }
        }
        exos.send()?;
        exos.wait(None, &[])?;
    }
    Ok(())
}
