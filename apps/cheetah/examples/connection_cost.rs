//! Counts the instructions that the server takes for whole connections: two stacks in one process, no wire, no kernel. Each of
//! some clients connects, asks for a page with `Connection: close`, takes it, and begins again.
//!
//! ```text
//! cargo build --release -p exos-cheetah --example connection_cost
//! valgrind --tool=callgrind --toggle-collect='*counted_turn*' target/release/examples/connection_cost 4000
//! ```
//!
//! The collected instructions, divided by the connections that are printed, are those of a connection: its segments, its control
//! block, its request. The first connections are not counted: tables grow.

mod ends;

use std::time::Instant as Clock;

use ends::Ends;
use exos_buf::Buffer;
use exos_cheetah::Site;
use exos_inet::tcp::{EventSet, Options};

const REQUEST: &str = "GET /favicon.svg HTTP/1.1\r\nHost: 10.0.0.2\r\nConnection: close\r\n\r\n";
/// Clients at once.
const CLIENTS: usize = 64;
/// Connections before those that are counted.
const FIRST: usize = 1000;

struct Clients {
    ends: Ends,
    begun: usize,
    done: usize,
}

impl Clients {
    fn begin(&mut self) {
        self.ends.connect(&Options::default());
        self.begun += 1;
    }

    /// They hear what has come, and begin again where they are done, until `most` have begun.
    fn turn(&mut self, most: usize) {
        self.ends.receive();
        while let Some(event) = self.ends.client.poll_event() {
            let (id, set) = (event.connection, event.set);
            let tcp = &mut self.ends.client.tcp;
            let len = tcp.readable(id).len();
            tcp.consume(id, len);
            if set.contains(EventSet::CONNECTED) {
                tcp.send(id, Buffer::from_static(REQUEST.as_bytes()).into());
            }
            if set.contains(EventSet::FINISHED) {
                tcp.finish(id);
            }
            if set.contains(EventSet::CLOSED) {
                self.done += 1;
                if self.begun < most {
                    self.begin();
                }
            }
        }
        self.ends.send();
    }

    /// Runs until this many connections are over.
    fn run(&mut self, most: usize, server_turn: fn(&mut Ends)) {
        for _ in self.begun..most.min(self.begun + CLIENTS) {
            self.begin();
        }
        while self.done < most {
            self.turn(most);
            server_turn(&mut self.ends);
        }
    }
}

fn main() {
    let count = std::env::args().nth(1);
    let count = count.map_or(4000, |count| {
        count.parse().expect("a number of connections")
    });
    let mut clients = Clients {
        ends: Ends::new(Site::example()),
        begun: 0,
        done: 0,
    };
    clients.run(FIRST, Ends::server_turn);
    let clock = Clock::now();
    clients.run(FIRST + count, Ends::counted_turn);
    let nanos = clock.elapsed().as_nanos() as f64 / count as f64;
    println!("{count} connections, {nanos:.0} ns each with their client");
}
