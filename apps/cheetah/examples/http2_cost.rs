//! Counts the instructions that the server takes for requests of HTTP/2: two stacks in one process, no wire, no kernel. A client asks
//! for a hundred documents of 100 bytes at once on one connection, and for the next hundred when all have come.
//!
//! ```text
//! cargo build --release -p exos-cheetah --example http2_cost
//! valgrind --tool=callgrind --toggle-collect='*counted_turn*' target/release/examples/http2_cost 20000 1
//! ```
//!
//! The first number is that of requests, the second that of documents, which are asked for in turn. The collected instructions, divided by
//! the requests, are those of a request; what a response takes on the wire is printed.

mod ends;

use std::time::Instant as Clock;

use ends::{Ends, UNIX_SECS};
use exos_buf::Buffer;
use exos_cheetah::Site;
use exos_cheetah::site::{Description, Document};
use exos_http2::frame::{self, FrameHead, flag};
use exos_http2::hpack::encoder;
use exos_http2::limits::{DEFAULT_WINDOW, WINDOW_MAX};
use exos_inet::tcp::{ConnectionId, EventSet, Options};

const STREAMS: usize = 100;
/// Requests before those that are counted.
const FIRST: usize = 1000;

struct Client {
    ends: Ends,
    connection: ConnectionId,
    documents: usize,
    next_stream: u32,
    asked: usize,
    done: usize,
    /// Bytes that came.
    came: usize,
}

fn site(documents: usize) -> Site {
    let mut site = Site::new();
    for number in 0..documents {
        let content = vec![b'0' + (number % 10) as u8; 100];
        let description = Description::plain("text/html", UNIX_SECS - number as u64);
        let path = format!("/{number}.html");
        site.insert(path.as_bytes(), Document::new(&content, &description));
    }
    site
}

impl Client {
    fn new(documents: usize) -> Client {
        let mut ends = Ends::new(site(documents));
        let connection = ends.connect(&Options::with_receive_buffer(1 << 20));
        Client {
            ends,
            connection,
            documents,
            next_stream: 1,
            asked: 0,
            done: 0,
            came: 0,
        }
    }

    fn push_request(&mut self, out: &mut Vec<u8>) {
        let path = format!("/{}.html", self.asked % self.documents);
        let block = encoder::block(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", &*path),
            (":authority", "10.0.0.2"),
        ]);
        frame::push_headers(out, self.next_stream, &[&block], true, 16_384);
        self.next_stream += 2;
        self.asked += 1;
    }

    /// It takes what has come, and asks again when it has everything.
    fn turn(&mut self, most: usize) {
        self.ends.receive();
        let mut out = Vec::new();
        while let Some(event) = self.ends.client.poll_event() {
            if event.set.contains(EventSet::CONNECTED) {
                out.extend_from_slice(frame::PREFACE);
                frame::push_settings(&mut out, &[]);
                frame::push_window_update(&mut out, 0, WINDOW_MAX - DEFAULT_WINDOW);
            }
        }
        let tcp = &mut self.ends.client.tcp;
        let (mut rest, mut taken) = (tcp.readable(self.connection), 0);
        while let Some(head) = FrameHead::parse(rest)
            && let Some(behind) = rest.get(9 + head.len..)
        {
            self.done += usize::from(head.stream > 0 && head.has(flag::END_STREAM));
            taken += 9 + head.len;
            rest = behind;
        }
        self.came += taken;
        tcp.consume(self.connection, taken);
        if self.done == self.asked && (self.asked > 0 || !out.is_empty()) {
            for _ in 0..STREAMS.min(most - self.asked) {
                self.push_request(&mut out);
            }
        }
        if !out.is_empty() {
            let tcp = &mut self.ends.client.tcp;
            tcp.send(self.connection, Buffer::from(out).into());
        }
        self.ends.send();
    }

    /// Runs until this many requests are answered.
    fn run(&mut self, most: usize, server_turn: fn(&mut Ends)) {
        while self.done < most {
            self.turn(most);
            server_turn(&mut self.ends);
        }
    }
}

fn main() {
    let numbers = std::env::args().skip(1);
    let mut numbers = numbers.map(|it| it.parse().expect("a number"));
    let count: usize = numbers.next().unwrap_or(20_000);
    let mut client = Client::new(numbers.next().unwrap_or(1));
    client.run(FIRST, Ends::server_turn);
    let (clock, came) = (Clock::now(), client.came);
    client.run(FIRST + count, Ends::counted_turn);
    let nanos = clock.elapsed().as_nanos() as f64 / count as f64;
    let bytes = (client.came - came) as f64 / count as f64;
    println!("{count} requests, {bytes:.1} bytes each, {nanos:.0} ns each with their client");
}
