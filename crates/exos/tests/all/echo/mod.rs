//! A program that sends back what comes, turn by turn: the example's answers.

use std::time::Duration;

use exos::Exos;

#[path = "../../../examples/echo_server.rs"]
#[allow(dead_code)] // Its `main`.
pub mod example;

/// One turn, and a wait of 20 ms at most.
pub fn turn(exos: &mut Exos) {
    exos.receive();
    example::answer(&mut exos.stack);
    exos.send().unwrap();
    let soon = exos.now() + Duration::from_millis(20);
    exos.wait(Some(soon), &[]).unwrap();
}
