//! Counters that others increase, in the kernel: the program sleeps while datagrams to UDP port 4000 are answered. Where the kernel cannot,
//! on a TAP device (`tap:NAME` in the place of the interface), this program answers them as they come.
//!
//! A message is the number of a counter (4 bytes) and what is added to it (8 bytes); the answer has the counter's value from before in
//! the place of the second. `cargo build -p exos --example remote_increment`, then `target/debug/examples/remote_increment`, as any user
//! whom `exos daemon` allows a port; without a daemon
//! `sudo target/debug/examples/remote_increment eth0 192.0.2.7/24` with a free address of the interface's network. Each second it prints what
//! the counters have come to.

use std::sync::atomic::Ordering;

use exos::signals::Signals;
use exos::{Addresses, Daemon, Downloaded, Duration, Exos, Interface, Role, Tap, ash};

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
            match interface.strip_prefix("tap:") {
                Some(name) => Exos::attach(Tap {
                    name: name.into(),
                    addresses: ours,
                })?,
                None => Exos::attach(Interface::new(interface, ours))?,
            }
        }
        _ => return Err("remote_increment [INTERFACE|tap:NAME ADDRESS/LENGTH]".into()),
    };
    let signals = Signals::catch()?;
    let counters = download(&mut exos)?;
    if let Some(why) = counters.not_in_kernel() {
        eprintln!("answered by this program, since the kernel does not: {why}");
    }
    run(&mut exos, &counters, || signals.stop_requested())
}

/// Has the counters kept from now on, by the kernel where it can.
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
    let mut next = exos.now();
    while !is_over() {
        exos.receive();
        exos.send()?;
        if exos.now() >= next {
            println!("{}", sum(counters));
            next = exos.now() + Duration::from_secs(1);
        }
        exos.wait(Some(next), &[])?;
    }
    Ok(())
}
