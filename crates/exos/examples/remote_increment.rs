//! Counters that others increase, in the kernel: the program sleeps while datagrams to UDP port 4000 are answered.
//!
//! A message is the number of a counter (4 bytes) and what is added to it (8 bytes); the answer has the counter's value from before in
//! the place of the second. `cargo build -p exos --example remote_increment`, then `target/debug/examples/remote_increment`, as any user
//! whom `exos daemon` allows a port; without a daemon
//! `sudo target/debug/examples/remote_increment eth0 192.0.2.7/24` with a free address of the interface's network. Each second it prints what
//! the counters have come to.

use std::sync::atomic::Ordering;

use exos::signals::Signals;
use exos::{Addresses, Daemon, Downloaded, Duration, Exos, Interface, Role, ash};

type Error = Box<dyn std::error::Error>;

const PORT: u16 = 4000;

const HANDLER: &str = "
    handler counters {
        words counters[1024];

        need 12;
        counter = &counters[be32(0)];
        before = add(counter, be64(4));
        reply 12 { be64(4) = before; }
    }";

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let mut exos = match (arguments.next(), arguments.next()) {
        (None, None) => Exos::attach(Daemon::new(Role::Connect(Vec::new())))?,
        (Some(interface), Some(address)) => {
            let ours = Addresses::new([address.parse()?])?;
            Exos::attach(Interface::new(interface, ours))?
        }
        _ => return Err("remote_increment [INTERFACE ADDRESS/LENGTH]".into()),
    };
    let signals = Signals::catch()?;
    let counters = download(&mut exos)?;
    run(&mut exos, &counters, || signals.stop_requested())
}

/// Has the kernel keep the counters from now on.
pub fn download(exos: &mut Exos) -> Result<Downloaded, Error> {
    Ok(exos.download(ash::parse(HANDLER)?, PORT)?)
}

/// The sum of all counters.
pub fn sum(counters: &Downloaded) -> u64 {
    let words = counters.memory().words("counters").unwrap_or_default();
    words
        .iter()
        .map(|word| word.load(Ordering::Relaxed))
        .fold(0, u64::wrapping_add)
}

/// Prints until `is_over`. What the handler gives up, a counter that there is not, would come to a socket at its port; there is none, so
/// the stack says so to who sent it (ICMP).
fn run(exos: &mut Exos, counters: &Downloaded, is_over: impl Fn() -> bool) -> Result<(), Error> {
    while !is_over() {
        println!("{}", sum(counters));
        exos.receive();
        exos.send()?;
        exos.wait(Some(exos.now() + Duration::from_secs(1)), &[])?;
    }
    Ok(())
}
