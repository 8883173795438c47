//! What a message costs a program that runs the counters' handler itself, where the kernel does not: the handler alone, as machine code and
//! by the interpreter; and with the stack around it, from the frame that comes to the frame that leaves, which is what the kernel's test
//! run of `sandbox` has, too.

use super::sandbox::{OURS, THEIRS, message};
use super::server::{HANDLER, PORT, parsed};
use crate::experiment::figure::Figures;
use crate::report::median;
use exos::ash::limits::MESSAGE_MAX;
use exos::ash::{Layout, Memory, Native, Outcome, Verdict, interpret};
use exos_host::{Error, Result};
use exos_inet::{Config, Handled, Instant, MessageHandler, RxChecksum, Stack};
use exos_wire::arp::{self, ArpPacket};
use exos_wire::ethernet::{self, ETHERTYPE_ARP, EthernetHeader};
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;

/// Messages that are timed at once, and how often.
const MESSAGES: u32 = 1000;
const TIMES: u32 = 100;
const NOW: Instant = Instant::from_millis(1);
/// Bytes before a message in its frame.
const HEADERS: usize = 42;

type Room = [u8; MESSAGE_MAX as usize];

/// The handler as machine code, with its memory.
struct Compiled {
    native: Native,
    handler: exos::ash::Checked,
    layout: Layout,
    words: Vec<AtomicU64>,
}

impl Compiled {
    fn new() -> Result<Self> {
        let handler = parsed(HANDLER)?;
        let layout = Layout::of(handler.handler());
        let words = (0..layout.bytes() / 8).map(|_| AtomicU64::new(0));
        Ok(Self {
            native: handler
                .compile()
                .map_err(|why| Error::new(why.to_string()))?,
            words: words.collect(),
            handler,
            layout,
        })
    }

    fn memory(&self) -> Memory<'_> {
        Memory::new(&self.words, &self.layout, self.handler.handler())
    }
}

impl MessageHandler for Compiled {
    fn handle(&mut self, message: &[u8], reply: &mut Room) -> Handled {
        match self.native.run(self.memory(), message, reply) {
            Verdict::GivenUp => Handled::GivenUp,
            Verdict::Done => Handled::Done,
            Verdict::Reply(bytes) => Handled::Reply(bytes),
        }
    }
}

/// Measures each.
pub(super) fn compare(figures: &mut Figures) -> Result<()> {
    let frame = message();
    let compiled = Compiled::new()?;
    let (memory, mut reply) = (compiled.memory(), [0; MESSAGE_MAX as usize]);
    let message = &frame[HEADERS..];
    let mut stack = stack(Compiled::new()?)?;
    let mut took_ns = [(); 3].map(|()| Vec::new());
    for _ in 0..TIMES {
        took_ns[0].push(time(|| {
            let verdict = compiled.native.run(memory, message, &mut reply);
            matches!(verdict, Verdict::Reply(_))
        })?);
        took_ns[1].push(time(|| {
            let outcome = interpret(&compiled.handler, memory, message);
            matches!(outcome, Outcome::Reply(_))
        })?);
        took_ns[2].push(time(|| {
            stack.handle_frame(NOW, &frame, RxChecksum::Unknown);
            let sent = stack.poll_transmit(NOW);
            sent.is_some_and(|sent| sent.head.len() == frame.len())
        })?);
    }
    let names = ["places/compiled", "places/interpreted", "places/stack"];
    for (name, took_ns) in names.into_iter().zip(took_ns) {
        figures.add(name, "ns", median(took_ns));
    }
    Ok(())
}

/// Nanoseconds of a message, each of which is answered.
fn time(mut each: impl FnMut() -> bool) -> Result<f64> {
    let begin = std::time::Instant::now();
    let answered = (0..MESSAGES).filter(|_| each()).count();
    let took = begin.elapsed();
    match answered == MESSAGES as usize {
        true => Ok(took.as_secs_f64() * 1e9 / f64::from(MESSAGES)),
        false => Err(Error::new("a handler did not answer in the program")),
    }
}

/// A stack with the handler, which knows its peer.
fn stack(handler: Compiled) -> Result<Stack> {
    let mut config = Config::new(OURS.0, 1500);
    config.addresses = vec![(IpAddr::V4(OURS.1), 24)];
    let stack = Stack::new(config, 1, NOW);
    let mut stack = stack.map_err(|why| Error::new(why.to_string()))?;
    stack.handle_datagrams(PORT, Box::new(handler));
    let question = ArpPacket {
        operation: arp::REQUEST,
        sender_mac: THEIRS.0,
        sender_ip: THEIRS.1,
        target_mac: exos_wire::Mac::ZERO,
        target_ip: OURS.1,
    };
    let header = EthernetHeader {
        dst: OURS.0,
        src: THEIRS.0,
        vlan: None,
        ethertype: ETHERTYPE_ARP,
    };
    let mut frame = [0; ethernet::LEN + arp::LEN];
    let len = header.emit(&mut frame);
    question.emit(&mut frame[len..]);
    stack.handle_frame(NOW, &frame, RxChecksum::Unknown);
    while stack.poll_transmit(NOW).is_some() {}
    Ok(stack)
}
