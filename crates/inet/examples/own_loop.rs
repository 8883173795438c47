//! Two stacks joined by a wire in memory: an echo server on one, a client on the other. It needs no privilege and no
//! network: `cargo run -p exos-inet --example own_loop`.
//!
//! A stack does no I/O. Its owner brings it frames and the time, and takes frames from it; here the wire is a `Vec` of
//! frames and the clock is a number, in a program of yours they are a device and the system's clock.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use exos_buf::Buffer;
use exos_inet::tcp::{EventSet, ListenOptions, Options};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_wire::Mac;

/// The host 10.0.0.`number`. The seed must be secret where strangers can reach the stack.
fn host(number: u8, now: Instant) -> Stack {
    let mut config = Config::new(Mac([2, 0, 0, 0, 0, number]), 1500);
    let ip = IpAddr::from(Ipv4Addr::new(10, 0, 0, number));
    config.addresses = vec![(ip, 24)];
    Stack::new(config, u64::from(number), now).expect("one address fits any network")
}

/// The server's part of a turn: whatever has come goes back.
fn echo(server: &mut Stack) {
    while let Some(event) = server.poll_event() {
        let id = event.connection;
        if event.set.contains(EventSet::READABLE) {
            let bytes = Buffer::from(server.tcp.readable(id));
            server.tcp.consume(id, bytes.len()); // The sender may send as much again.
            server.tcp.send(id, bytes.into());
        }
        if event.set.contains(EventSet::FINISHED) {
            server.tcp.finish(id); // It says no more, so neither do we.
        }
    }
}

/// The client's part of a turn: says `text` once it is connected, and adds to `answer` what comes. True when it is over.
fn ask(client: &mut Stack, text: &str, answer: &mut Vec<u8>) -> bool {
    let mut over = false;
    while let Some(event) = client.poll_event() {
        let id = event.connection;
        if event.set.contains(EventSet::CONNECTED) {
            client.tcp.send(id, Buffer::from(text.as_bytes()).into());
            client.tcp.finish(id); // The end follows the text.
        }
        let bytes = client.tcp.readable(id);
        answer.extend_from_slice(bytes);
        let count = bytes.len();
        client.tcp.consume(id, count);
        over |= event.set.contains(EventSet::CLOSED);
    }
    over
}

/// Carries every frame that `from` has to send; a frame is its head and the parts of its body.
fn carry(now: Instant, from: &mut Stack, to: &mut Stack) {
    while let Some(sent) = from.poll_transmit(now) {
        let frame = [&[sent.head], sent.body.parts()].concat().concat();
        to.handle_frame(now, &frame, RxChecksum::Unknown);
    }
}

/// What the echo server answers to `text`.
pub fn run(text: &str) -> String {
    let mut now = Instant::from_millis(1);
    let (mut server, mut client) = (host(1, now), host(2, now));
    let options = ListenOptions::default();
    server.tcp.listen(None, 7, options).expect("a free port");
    let to = SocketAddr::from(([10, 0, 0, 1], 7));
    let opened = client.tcp.connect(now, None, to, &Options::default());
    opened.expect("10.0.0.1 is on its network");
    let mut answer = Vec::new();
    // A turn: frames in, deadlines, events, frames out. A real loop then sleeps until a frame comes or `poll_timeout`.
    while !ask(&mut client, text, &mut answer) {
        carry(now, &mut client, &mut server);
        echo(&mut server);
        carry(now, &mut server, &mut client);
        now += Duration::from_millis(1);
        client.handle_timeout(now);
        server.handle_timeout(now);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn main() {
    println!("{}", run("hello"));
}
