//! Handlers that programs download by the daemon: what they answer, what goes to the program, what is refused, and what is left
//! when one of them goes. As root; skipped, and said so, otherwise.

mod bounds;
mod library;
mod lives;
mod ports;

use std::net::UdpSocket;
use std::time::Duration;

use exos_host::bpf::MappedArray;
use exos_host::netns::NetNs;
use exos_link::Link;
use exos_xok::Protocol;
use exos_xok::message::{Answer, Mode, PortWish, Refusal, Request, Secret};

use crate::daemon::counters;
use crate::lab::*;
use crate::live::pass_all;

const PORT: u16 = 4000;

const COUNTERS: &str = "handler counters {
    words counters[1024];
    need 12;
    counter = &counters[be32(0)];
    before = add(counter, be64(4));
    reply 12 { be64(4) = before; }
}";

/// What asks for a handler, as the library does.
pub fn download_of(port: u16, handler: &str) -> Request {
    let read = exos_ash::parse(handler);
    let memory = read.map_or(0, |read| exos_ash::Layout::of(read.handler()).bytes());
    Request::Download {
        port,
        memory,
        handler: handler.to_owned(),
    }
}

/// A lab with a daemon, whose far end takes what is redirected to it; None, and said so, without privilege.
fn lab_of(test: &str) -> Option<(Lab, exos_host::bpf::Link)> {
    let mut lab = Lab::new(test)?;
    lab.start(&[]);
    let takes = pass_all(&NetNs::open(&lab.side('b')).expect("it is there"));
    Some((lab, takes))
}

/// A program that has a UDP port.
struct Holder {
    program: Program,
    link: Link,
    slot: u32,
    token: Secret,
}

impl Holder {
    fn new(lab: &Lab, port: u16) -> Self {
        let program = Program::connect(lab);
        let attached = program.attached_by(Mode::Shared);
        Self::of(program, attached, port)
    }

    /// One that may look away for some thousand messages.
    fn with_room(lab: &Lab, port: u16) -> Self {
        let program = Program::connect(lab);
        let attached = Attached::from(program.ask(&Request::Attach {
            interface: String::new(),
            mode: Mode::Shared,
            chunks: 4096,
            program: "test".to_owned(),
        }));
        Self::of(program, attached, port)
    }

    fn of(program: Program, attached: Attached, port: u16) -> Self {
        port_of(&program.claim(Protocol::Udp, PortWish::Number(port)));
        Self {
            program,
            link: attached.link,
            slot: attached.slot,
            token: attached.token,
        }
    }

    /// Takes up its slot by another daemon.
    fn come_back(&mut self, lab: &Lab) {
        self.program = Program::connect(lab);
        let token = self.token;
        let (back, _) = self.program.ask(&Request::Reattach { token });
        assert!(matches!(back, Answer::Attached { .. }), "{back:?}");
    }

    fn remove(&self, port: Option<u16>) {
        remove(&self.program, port);
    }

    fn download(&self, port: u16, handler: &str, words: usize) -> Result<MappedArray, Answer> {
        download(&self.program, port, handler, words)
    }

    /// Whether a message of this text comes to the program.
    fn receives(&mut self, lab: &Lab, text: &str) -> bool {
        receives(lab, &mut self.link, PORT, text)
    }

    /// A counter of the slot, when it has come to this.
    fn must_count(&self, name: &str, expected: u64) {
        let counted = || counters(&self.program, self.slot)[name].as_u64();
        assert!(
            within(|| counted() == Some(expected)),
            "{name}: {:?}, not {expected}",
            counted()
        );
    }
}

/// Has the handler of a port of a program's go, or all.
fn remove(program: &Program, port: Option<u16>) {
    let (answer, _) = program.ask(&Request::RemoveHandler { port });
    assert_eq!(answer, Answer::Done);
}

/// The memory of a handler that a program downloads, or why it has none.
fn download(
    program: &Program,
    port: u16,
    handler: &str,
    words: usize,
) -> Result<MappedArray, Answer> {
    let request = download_of(port, handler);
    loop {
        return match program.ask(&request) {
            (Answer::Downloaded, mut fds) => {
                let memory = fds.pop().expect("the memory");
                Ok(MappedArray::adopt(memory, 8 * words).expect("it can be mapped"))
            }
            (
                Answer::Refused {
                    code: Refusal::Busy,
                    ..
                },
                _,
            ) => {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            (refused, _) => Err(refused),
        };
    }
}

/// Who asks from the far end.
struct Asker(UdpSocket);

impl Asker {
    fn new(lab: &Lab) -> Self {
        Self::of(lab, PORT)
    }

    fn of(lab: &Lab, port: u16) -> Self {
        let socket = lab.over_there(|| UdpSocket::bind("10.78.0.2:0").expect("free"));
        socket.connect((OURS, port)).expect("a route");
        socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
        Self(socket)
    }

    fn ask(&self, counter: u32, by: u64) -> u64 {
        let message = [&counter.to_be_bytes()[..], &by.to_be_bytes()].concat();
        self.0.send(&message).expect("a neighbour");
        let mut answer = [0; 64];
        assert_eq!(self.0.recv(&mut answer).expect("an answer"), 12);
        assert_eq!(answer[..4], message[..4]);
        u64::from_be_bytes(answer[4..12].try_into().expect("eight"))
    }
}

/// Why a handler is not to be had.
fn refused(holder: &Holder, port: u16, handler: &str) -> (Refusal, String) {
    let answer = holder
        .download(port, handler, 1)
        .expect_err("it is refused");
    let (code, text) = refusal(&answer);
    (code, text.to_owned())
}

/// The verifier would follow a million sums.
fn too_many_ways() -> String {
    let each = (0..20).map(|bit| {
        let (at, more) = (bit % 12, bit + 7);
        format!("if u8({at}) > {more} {{ x = x + {}; }}", 1 << bit)
    });
    format!("x = 0; {}", each.collect::<String>())
}
