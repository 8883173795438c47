//! A server on two cores that tells each connection which core has it, on TCP port 7 of an interface pair of its own.
//!
//! `cargo build -p exos --example several_cores`, then `sudo target/debug/examples/several_cores`, which prints its
//! addresses; `nc ADDRESS 7` several times.
//!
//! Each core has queues of the interface, a stack and a loop to itself. They share nothing: a connection lives on one core.

use std::thread;

use exos::{Buffer, EventSet, Exos, ListenOptions, OwnPair, signals::Signals};

type Error = Box<dyn std::error::Error + Send + Sync>;

const PORT: u16 = 7;

fn main() -> Result<(), Error> {
    let exos = Exos::attach(OwnPair::new().with_cores(2))?;
    let signals = Signals::catch()?;
    for address in exos.stack.addresses() {
        println!("{}", address.addr);
    }
    run(exos, || signals.stop_requested())
}

/// Serves on all cores until `is_over`. The first core stays in this thread.
pub fn run(mut first: Exos, is_over: impl Fn() -> bool + Sync) -> Result<(), Error> {
    let others = first.take_cores();
    let is_over = &is_over;
    thread::scope(|scope| {
        let threads: Vec<_> = (2..)
            .zip(others)
            // A stack cannot move between threads: `start` makes it in the thread that it is to stay in.
            .map(|(number, core)| scope.spawn(move || serve(core.start()?, number, is_over)))
            .collect();
        serve(first, 1, is_over)?;
        let mut ends = threads.into_iter().map(|thread| thread.join());
        ends.try_for_each(|end| end.expect("no core panics"))
    })
}

/// One core's loop, as if there were no other. It asks `is_over` at least once a second: no sleep is longer.
fn serve(mut exos: Exos, number: usize, is_over: impl Fn() -> bool) -> Result<(), Error> {
    let options = ListenOptions::default();
    exos.stack.tcp.listen(None, PORT, options)?;
    // Sent to every connection, and kept once: a slice of a buffer is a reference.
    let greeting = Buffer::from(format!("you are on core {number}\n"));
    while !is_over() {
        exos.receive();
        while let Some(event) = exos.stack.poll_event() {
            if event.set.contains(EventSet::ACCEPTED) {
                let tcp = &mut exos.stack.tcp;
                tcp.send(event.connection, greeting.clone().into());
                tcp.discard_received(event.connection); // Whatever the peer says.
                tcp.finish(event.connection);
            }
        }
        exos.send()?;
        exos.wait(None, &[])?;
    }
    Ok(())
}
