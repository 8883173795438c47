//! An echo server on TCP port 7 of an interface pair of its own.
//!
//! `cargo build -p exos --example echo_server`, then `sudo target/debug/examples/echo_server`, which prints its addresses;
//! `nc ADDRESS 7` gets back what one types. Ctrl-C ends it, and the interface is gone. It needs this crate alone.

use std::os::fd::BorrowedFd;

use exos::{Buffer, EventSet, Exos, LinkKind, ListenOptions, Stack};

type Error = Box<dyn std::error::Error>;

const PORT: u16 = 7;

fn main() -> Result<(), Error> {
    // An interface pair where we may make one, else a TAP device in a user namespace. `Interface` would be one that is there.
    let mut exos = Exos::attach(LinkKind::own())?;
    let signals = exos::signals::Signals::catch()?;
    for address in exos.stack.addresses() {
        println!("{}", address.addr);
    }
    run(&mut exos, signals.fd(), || signals.stop_requested())
}

/// Answers until `is_over`. `wake` is readable when it is time to ask that.
pub fn run(exos: &mut Exos, wake: BorrowedFd<'_>, is_over: impl Fn() -> bool) -> Result<(), Error> {
    // `None`: on every address of ours.
    let options = ListenOptions::default();
    exos.stack.tcp.listen(None, PORT, options)?;
    while !is_over() {
        exos.receive(); // All frames that are there go into the stack.
        answer(&mut exos.stack);
        exos.send()?; // Acknowledgements leave on the answers.
        exos.wait(None, &[wake])?; // Returns at once after a turn that moved frames.
    }
    Ok(())
}

/// Sends back what has come.
pub fn answer(stack: &mut Stack) {
    while let Some(event) = stack.poll_event() {
        let (id, tcp) = (event.connection, &mut stack.tcp);
        if event.set.contains(EventSet::READABLE) {
            let bytes = Buffer::from(tcp.readable(id));
            tcp.consume(id, bytes.len()); // The peer may send as much again.
            tcp.send(id, bytes.into()); // Kept until it is acknowledged; not copied.
        }
        if event.set.contains(EventSet::FINISHED) {
            tcp.finish(id); // The peer says no more, so neither do we.
        }
    }
}
