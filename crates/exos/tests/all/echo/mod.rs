//! A program that sends back what comes, turn by turn.

use std::time::Duration;

use exos::Exos;
use exos_buf::Buffer;
use exos_inet::tcp::EventSet;

/// One turn, and a wait of 20 ms at most.
pub fn turn(exos: &mut Exos) {
    exos.receive();
    answer(exos);
    exos.send().unwrap();
    let soon = exos.now() + Duration::from_millis(20);
    exos.wait(Some(soon), &[]).unwrap();
}

/// Sends back what has come.
pub fn answer(exos: &mut Exos) {
    while let Some(event) = exos.stack.poll_event() {
        let id = event.connection;
        if event.set.contains(EventSet::READABLE) {
            let bytes = Buffer::from(exos.stack.tcp.readable(id));
            exos.stack.tcp.consume(id, bytes.len());
            exos.stack.tcp.send(id, bytes.into());
        }
        if event.set.contains(EventSet::FINISHED) {
            exos.stack.tcp.finish(id);
        }
    }
}
