//! How long a status takes, for which packets wait: of this many servers behind one listener.
//!
//!     cargo run --release -p exos-forward --example status_speed

use std::net::SocketAddr;
use std::time::Instant as Clock;

use exos_forward::packets::packet::Transport;
use exos_forward::packets::reach::Reach;
use exos_forward::service::{Listen, Services};
use exos_forward::status::Status;

fn main() {
    let listener = SocketAddr::from(([10, 0, 0, 20], 80));
    for servers in [1u16, 50, 200] {
        let server = |n: u16| SocketAddr::from(([10, 1, (n >> 8) as u8, n as u8], 8080));
        let listen = Listen {
            transport: Transport::Tcp,
            at: listener,
            reach: Reach::Nat,
            to: (0..servers)
                .map(|n| (server(n), 1, listener.ip()))
                .collect(),
        };
        let services = Services::new(&[listen]).expect("it fits");
        let mut least = f64::MAX;
        let mut len = 0;
        for _ in 0..50 {
            let begun = Clock::now();
            let text = serde_json::to_string(&Status::of(&services)).expect("JSON");
            least = least.min(begun.elapsed().as_nanos() as f64 / 1000.0);
            len = text.len();
        }
        let each = least / f64::from(servers);
        println!("{servers:>5} servers: {least:.1} us, {each:.2} us each, {len} bytes");
    }
}
