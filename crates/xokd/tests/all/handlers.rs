//! Handlers that programs download by the daemon: what they answer, what goes to the program, what is refused, and what is left
//! when one of them goes. As root; skipped, and said so, otherwise.

use crate::daemon::{counters, report};
use crate::lab;
use crate::live::pass_all;

#[path = "../../../exos/examples/remote_increment.rs"]
#[allow(dead_code)] // Its `main`.
mod remote_increment;

#[path = "../../../exos/examples/memcached.rs"]
#[allow(dead_code)] // Its `main`.
mod memcached;

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use exos::memcached::Item;
use exos::{Daemon, Exos, Place, Role};
use exos_filter::gate::limits::HANDLERS_MAX;
use exos_host::bpf::MappedArray;
use exos_host::netns::NetNs;
use exos_link::Link;
use exos_xok::Protocol;
use exos_xok::message::{Answer, Mode, PortWish, Refusal, Request, Secret};
use lab::*;

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

    /// Has the handler of a port go, or all.
    fn remove(&self, port: Option<u16>) {
        let (answer, _) = self.program.ask(&Request::RemoveHandler { port });
        assert_eq!(answer, Answer::Done);
    }

    /// The handler's memory, or why it has none.
    fn download(&self, port: u16, handler: &str, words: usize) -> Result<MappedArray, Answer> {
        let request = download_of(port, handler);
        loop {
            return match self.program.ask(&request) {
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

    /// Whether a message of this text comes to the program.
    fn receives(&mut self, lab: &Lab, text: &str) -> bool {
        receives(lab, &mut self.link, PORT, text)
    }

    /// A counter of the slot, when it has come to this.
    fn must_count(&self, name: &str, expected: u64) {
        let counted = || counters(&self.program, self.slot)[name].as_u64();
        let patience = Duration::from_secs(5);
        assert!(
            within(patience, || counted() == Some(expected)),
            "{name}: {:?}, not {expected}",
            counted()
        );
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
        let patience = Some(Duration::from_secs(5));
        socket.set_read_timeout(patience).expect("not zero");
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

#[test]
fn a_handler_answers_for_a_program_that_does_nothing() {
    let Some((lab, _takes)) = lab_of("handler-answers") else {
        return;
    };
    let mut holder = Holder::new(&lab, PORT);
    let memory = holder.download(PORT, COUNTERS, 1024).expect("it is sound");
    let asker = Asker::new(&lab);
    for before in 0..100 {
        assert_eq!(asker.ask(7, 1), before);
    }
    assert_eq!(memory.words()[7].load(Ordering::Relaxed), 100);
    memory.words()[7].store(5000, Ordering::Relaxed);
    assert_eq!(
        asker.ask(7, 1),
        5000,
        "the program's memory is the handler's"
    );
    assert!(holder.receives(&lab, "short"), "what is given up comes");
    holder.must_count("handler_answered", 101);
    holder.must_count("handler_gave_up", 1);
    holder.must_count("tx_packets", 101);

    holder.remove(None);
    assert!(
        holder.receives(&lab, "more than twelve bytes"),
        "nothing handles any more"
    );
    assert_eq!(memory.words()[7].load(Ordering::Relaxed), 5001);
}

const PORTS: Range<u16> = PORT..PORT + HANDLERS_MAX as u16;

/// A program that has a handler of each of [`PORTS`], and one port more; and who asks each.
struct Several {
    holder: Holder,
    memories: Vec<MappedArray>,
    askers: Vec<Asker>,
}

impl Several {
    fn new(lab: &Lab) -> Self {
        let holder = Holder::new(lab, PORT);
        for port in PORT + 1..=PORTS.end {
            port_of(&holder.program.claim(Protocol::Udp, PortWish::Number(port)));
        }
        let download = |port| holder.download(port, COUNTERS, 1024);
        Self {
            memories: PORTS.map(|port| download(port).expect("a place")).collect(),
            askers: PORTS.map(|port| Asker::of(lab, port)).collect(),
            holder,
        }
    }

    /// Each but this has counted so far.
    fn must_answer(&self, so_far: u64, but: Option<usize>) {
        let others = self.askers.iter().enumerate();
        for (_, asker) in others.filter(|(at, _)| Some(*at) != but) {
            assert_eq!(asker.ask(7, 1), so_far);
        }
    }
}

/// As many as there may be, each on memory of its own; in the place of one, and without it, the others go on.
#[test]
fn each_port_has_a_handler_of_its_own() {
    let Some((lab, _takes)) = lab_of("handlers-of-ports") else {
        return;
    };
    let mut all = Several::new(&lab);
    let (code, text) = refused(&all.holder, PORTS.end, COUNTERS);
    assert_eq!(code, Refusal::Limit, "{text}");
    all.must_answer(0, None);
    let other = all.holder.download(PORT + 3, COUNTERS, 1024);
    all.memories[3] = other.expect("in the place of the one before");
    all.must_answer(1, Some(3));
    assert_eq!(all.askers[3].ask(7, 1), 0);
    assert_eq!(all.memories[3].words()[7].load(Ordering::Relaxed), 1);
    all.holder.remove(Some(PORT + 3));
    all.holder.remove(Some(PORTS.end));
    all.must_answer(2, Some(3));
    let text = "more than twelve bytes";
    assert!(receives(&lab, &mut all.holder.link, PORT + 3, text));
    all.holder.remove(None);
    for port in [PORT, PORTS.end - 1] {
        assert!(receives(&lab, &mut all.holder.link, port, text), "{port}");
    }
}

/// A successor knows from the kernel alone which there are.
#[test]
fn handlers_of_several_ports_are_taken_over() {
    let Some((mut lab, _takes)) = lab_of("handlers-adopted") else {
        return;
    };
    let mut all = Several::new(&lab);
    all.must_answer(0, None);
    lab.kill();
    all.must_answer(1, None);
    lab.start(&[]);
    all.must_answer(2, None);
    all.holder.come_back(&lab);
    let (code, text) = refused(&all.holder, PORTS.end, COUNTERS);
    assert_eq!(code, Refusal::Limit, "{text}");
    all.holder.remove(Some(PORT + 3));
    let last = all.holder.download(PORTS.end, COUNTERS, 1024);
    last.expect("there is a place");
    assert_eq!(Asker::of(&lab, PORTS.end).ask(7, 1), 0);
    all.must_answer(3, Some(3));
    let report = report(&all.holder.program);
    let handled = &report["interfaces"][0]["slots"][0]["handled_ports"];
    let handled = handled.as_array().expect("a list");
    assert_eq!(handled.len(), HANDLERS_MAX, "{report}");
    assert!(handled.contains(&"udp 4000".into()), "{report}");
    assert!(!handled.contains(&"udp 4003".into()), "{report}");
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

#[test]
fn what_cannot_be_handled_is_refused_with_the_reason() {
    let Some((lab, _takes)) = lab_of("handler-refused") else {
        return;
    };
    let holder = Holder::new(&lab, PORT);
    let beside = Holder::new(&lab, 4001);
    let done = "handler h { done; }";
    for (port, handler, code, why) in [
        (0, done, Refusal::NotFound, "UDP port 0"),
        (4001, done, Refusal::NotFound, "UDP port 4001"),
        (PORT, "", Refusal::BadRequest, "handler"),
        (PORT, "handler h { x = 1; }", Refusal::BadRequest, "verdict"),
        (
            PORT,
            "handler h { rows r[1000000] of 4096; done; }",
            Refusal::BadRequest,
            "bytes",
        ),
    ] {
        let (refused, text) = refused(&holder, port, handler);
        assert_eq!(refused, code, "{text}");
        assert!(text.contains(why), "{text}");
    }
    // Nested as deeply as a message is long.
    let deep = format!("handler h {{ x = {}1; done; }}", "(".repeat(60_000));
    assert_eq!(refused(&holder, PORT, &deep).0, Refusal::BadRequest);
    let ways = format!(
        "handler h {{ words w[1048576]; need 12; {} p = &w[x]; add(p, 1); done; }}",
        too_many_ways()
    );
    let (refused, text) = refused(&holder, PORT, &ways);
    assert_eq!(refused, Refusal::BadRequest, "{text}");
    assert!(text.contains("too many ways"), "{text}");
    holder.download(PORT, done, 1).expect("the daemon lives");
    beside.download(4001, done, 1).expect("each has one");
}

#[test]
fn memory_counts_until_nobody_has_it() {
    let Some((mut lab, _takes)) = lab_of("handler-memory") else {
        return;
    };
    lab.stop();
    lab.start_by("[[allow]]\nuser = \"root\"\nmemory_max = \"20MiB\"\n");
    let holder = Holder::new(&lab, PORT);
    let large = "handler h { words w[1000000]; done; }";
    let first = holder.download(PORT, large, 1_000_000).expect("8 MB");
    let second = holder.download(PORT, large, 1_000_000).expect("16 MB");
    let (code, text) = refused(&holder, PORT, large);
    assert_eq!(code, Refusal::Limit, "{text}");
    // The one before is nobody's when the program lets go of it; the other is still the handler's.
    drop((first, second));
    let third = || holder.download(PORT, large, 1_000_000).ok();
    let mut memory = None;
    assert!(within(Duration::from_secs(10), || {
        memory = third();
        memory.is_some()
    }));
}

/// Beside its memory, which the program has still, a handler's code is in the kernel as long as the handler.
#[test]
fn code_counts_until_it_is_gone() {
    let Some((lab, _takes)) = lab_of("handler-code") else {
        return;
    };
    let holder = Holder::new(&lab, PORT);
    let counted = || {
        let report = report(&holder.program);
        let bytes = &report["interfaces"][0]["slots"][0]["memory_bytes"];
        bytes.as_u64().expect("bytes")
    };
    let must_come_to = |bytes: u64| {
        let is_there = within(Duration::from_secs(20), || counted() == bytes);
        assert!(is_there, "{} bytes, not {bytes}", counted());
    };
    let before = counted();
    let statements = "w = be64(0) * 3;".repeat(1000);
    let text = format!(
        "handler h {{ words n[512]; need 8; {statements} p = &n[w & 511]; add(p, 1); done; }}"
    );
    let memory = holder.download(PORT, &text, 512).expect("it is sound");
    let is_counted = || counted() > before + 4096 + 2 * 8 * 1000;
    assert!(within(Duration::from_secs(20), is_counted), "{}", counted());
    holder.remove(None);
    must_come_to(before + 4096);
    drop(memory);
    must_come_to(before);
}

#[test]
fn policy_bounds_and_forbids() {
    let Some((mut lab, _takes)) = lab_of("handler-policy") else {
        return;
    };
    lab.stop();
    let rule = |steps: u64| format!("[[allow]]\nuser = \"root\"\nhandler_steps = {steps}\n");
    lab.start_by(&rule(0));
    let mut holder = Holder::new(&lab, PORT);
    let (code, text) = refused(&holder, PORT, COUNTERS);
    assert_eq!(code, Refusal::NotAllowed);
    assert!(text.contains("handler_steps"), "{text}");

    // So few that of many messages at once all but some go to the program.
    lab.reload(&rule(10_000));
    let mut memory = None;
    assert!(within(Duration::from_secs(10), || {
        memory = holder.download(PORT, COUNTERS, 1024).ok();
        memory.is_some()
    }));
    let told = || {
        let all = counters(&holder.program, holder.slot);
        all["handler_skipped"].as_u64()
    };
    let asker = Asker::new(&lab);
    for _ in 0..50 {
        let message = [&7u32.to_be_bytes()[..], &1u64.to_be_bytes()].concat();
        asker.0.send(&message).expect("a neighbour");
    }
    assert!(within(Duration::from_secs(10), || told() >= Some(35)));
    let mut came = 0;
    assert!(within(Duration::from_secs(10), || {
        holder.link.receive(|_, _| came += 1);
        came >= 35
    }));

    // And none from now on, without a word of the program.
    lab.reload(&rule(0));
    let memory = memory.expect("it was downloaded");
    let message = [&7u32.to_be_bytes()[..], &1u64.to_be_bytes()].concat();
    let is_over = || {
        // The steps that it may have had are there again.
        std::thread::sleep(Duration::from_millis(20));
        let before = memory.words()[7].load(Ordering::Relaxed);
        asker.0.send(&message).expect("a neighbour");
        assert!(holder.receives(&lab, "behind it"));
        memory.words()[7].load(Ordering::Relaxed) == before
    };
    assert!(within(Duration::from_secs(10), is_over));
}

/// For longer than what they may take at once lasts.
#[test]
fn handlers_of_a_program_have_their_steps_together() {
    let Some((mut lab, _takes)) = lab_of("handlers-steps") else {
        return;
    };
    lab.stop();
    let steps_per_sec = 10_000;
    lab.start_by(&format!(
        "[[allow]]\nuser = \"root\"\nhandler_steps = {steps_per_sec}\n"
    ));
    let holder = Holder::new(&lab, PORT);
    port_of(
        &holder
            .program
            .claim(Protocol::Udp, PortWish::Number(PORT + 1)),
    );
    let ports = [PORT, PORT + 1];
    let memories = ports.map(|port| holder.download(port, COUNTERS, 1024).expect("steps"));
    let askers = ports.map(|port| Asker::of(&lab, port));
    let message = [&7u32.to_be_bytes()[..], &1u64.to_be_bytes()].concat();
    let dealt_with = || {
        memories
            .each_ref()
            .map(|m| m.words()[7].load(Ordering::Relaxed))
    };
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(1) {
        for asker in &askers {
            asker.0.send(&message).expect("a neighbour");
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    let each = exos::ash::parse(COUNTERS).expect("it is sound").steps() + 30;
    let may = steps_per_sec as f64 * (begin.elapsed().as_secs_f64() + 0.01) / each as f64;
    // One more for each processor, which looks before it takes.
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let count = dealt_with();
    assert!(count.iter().all(|count| *count > 0), "{count:?}");
    let sum: u64 = count.iter().sum();
    assert!(sum <= may as u64 + processors, "{count:?}, not {may}");
}

#[test]
fn a_handler_goes_with_its_program() {
    let Some((lab, _takes)) = lab_of("handler-goes") else {
        return;
    };
    let holder = Holder::new(&lab, PORT);
    holder.download(PORT, COUNTERS, 1024).expect("it is sound");
    let asker = Asker::new(&lab);
    assert_eq!(asker.ask(7, 1), 0);
    let slot = holder.slot;
    drop(holder);
    // The next one has its port and, when that is free again, its place.
    let mut next = Holder::new(&lab, PORT);
    for _ in 0..20 {
        if next.slot == slot {
            break;
        }
        drop(next);
        next = Holder::new(&lab, PORT);
    }
    assert_eq!(next.slot, slot, "the lowest number is given again");
    assert!(
        next.receives(&lab, "twelve bytes"),
        "nothing handles any more"
    );
    next.must_count("handler_answered", 0);
}

/// Datagrams are numbered, and come while handlers come and go: the handler has each, or the program. Those of another port its own
/// handler has all the time.
#[test]
fn no_message_is_lost_while_handlers_come_and_go() {
    let Some((lab, _takes)) = lab_of("handler-changes") else {
        return;
    };
    let mut holder = Holder::new(&lab, PORT);
    let noted = "handler noted {
        words seen[4096];
        need 4;
        place = &seen[be32(0)];
        add(place, 1);
        done;
    }";
    let beside = PORT + 1;
    port_of(
        &holder
            .program
            .claim(Protocol::Udp, PortWish::Number(beside)),
    );
    let all_the_time = holder.download(beside, noted, 4096).expect("it is sound");
    let askers = [PORT, beside].map(|port| Asker::of(&lab, port));
    let (mut by_program, mut memories) = (vec![0_u64; 4096], Vec::new());
    let mut hear = |holder: &mut Holder| {
        holder.link.receive(|frame, _| {
            let number = frame.get(42..46).and_then(|n| n.try_into().ok());
            let number = number.map(u32::from_be_bytes);
            if let Some(seen) = number.and_then(|n| by_program.get_mut(n as usize)) {
                *seen += 1;
            }
        });
        by_program.clone()
    };
    let is_over = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let numbers = (0..4096_u32).take_while(|_| !is_over.load(Ordering::Relaxed));
            let sent = numbers.map(|number| {
                for asker in &askers {
                    asker.0.send(&number.to_be_bytes()).expect("a neighbour");
                }
                std::thread::sleep(Duration::from_micros(300));
            });
            sent.count()
        });
        for _ in 0..4 {
            memories.push(holder.download(PORT, noted, 4096).expect("it is sound"));
            hear(&mut holder);
            std::thread::sleep(Duration::from_millis(10));
            holder.remove(Some(PORT));
            hear(&mut holder);
        }
        is_over.store(true, Ordering::Relaxed);
        sender.join().expect("it only sends")
    });
    let mut counts = Vec::new();
    let all = within(Duration::from_secs(10), || {
        let by_program = hear(&mut holder);
        let handled = |n: usize| {
            memories
                .iter()
                .map(move |m| m.words()[n].load(Ordering::Relaxed))
        };
        let counted = (0..sent).map(|n| by_program[n] + handled(n).sum::<u64>());
        counts = counted.collect();
        counts.iter().all(|count| *count >= 1)
    });
    assert!(all && counts.iter().all(|count| *count == 1), "{counts:?}");
    assert!(sent > 100, "some came meanwhile: {sent}");
    let beside = all_the_time.words()[..sent].iter();
    let beside: Vec<_> = beside.map(|n| n.load(Ordering::Relaxed)).collect();
    assert!(beside.iter().all(|count| *count == 1), "{beside:?}");
}

/// A veth hands over packets in buffers hardly longer than they: then the packet is moved, whole.
#[test]
fn a_reply_may_be_longer_than_the_packet_has_room_for() {
    let Some((lab, _takes)) = lab_of("handler-room") else {
        return;
    };
    let mut holder = Holder::new(&lab, PORT);
    let echo = "handler echo { reply 220 { } }";
    holder.download(PORT, echo, 1).expect("it is sound");
    let asker = Asker::new(&lab);
    for length in [
        1, 13, 21, 22, 23, 63, 64, 65, 85, 86, 87, 150, 219, 220, 300, 1472,
    ] {
        let message: Vec<u8> = (0..length).map(|n| (n * 7 + length) as u8).collect();
        asker.0.send(&message).expect("a neighbour");
        let mut reply = [1; 300];
        assert_eq!(asker.0.recv(&mut reply).expect("a reply"), 220, "{length}");
        let same = length.min(220);
        assert_eq!(reply[..same], message[..same]);
        assert!(reply[same..220].iter().all(|byte| *byte == 0), "{length}");
    }
    // Where there is no room the message is the program's, as it came.
    let long = "handler echo { reply 1400 { } }";
    holder.download(PORT, long, 1).expect("it is sound");
    assert!(holder.receives(&lab, "a message that is not answered"));
}

/// The library claims the port, and its stack gets what the handler gives up.
#[test]
fn a_program_of_the_librarys_downloads_by_the_daemon() {
    let Some((lab, _takes)) = lab_of("handler-library") else {
        return;
    };
    let mut exos = Exos::attach(Daemon {
        socket: lab.socket(),
        ..Daemon::new(Role::Connect(Vec::new()))
    })
    .expect("the daemon lends a link");
    let counters = remote_increment::download(&mut exos).expect("it is sound");
    let asker = Asker::new(&lab);
    for before in 0..10 {
        assert_eq!(asker.ask(7, 1), before);
    }
    assert_eq!(remote_increment::sum(&counters), 10);
    let own = exos.stack.udp.bind(None, PORT).expect("a free port");
    asker.0.send(b"short").expect("a neighbour");
    let heard = within(Duration::from_secs(5), || {
        exos.receive();
        let datagram = exos.stack.udp.receive(own).expect("ours");
        datagram.is_some_and(|datagram| datagram.payload == b"short")
    });
    assert!(heard, "what is given up comes to the socket");
    exos.remove_handler();
    asker.0.send(&[0; 12]).expect("a neighbour");
    let heard = within(Duration::from_secs(5), || {
        exos.receive();
        exos.stack.udp.receive(own).expect("ours").is_some()
    });
    assert!(heard, "nothing handles any more");
}

/// Of a cache: over UDP and on connections, to ports of the same number.
#[test]
fn datagrams_and_requests_are_answered_beside_each_other() {
    let Some((lab, _takes)) = lab_of("handlers-beside") else {
        return;
    };
    let mut exos = Exos::attach(Daemon {
        socket: lab.socket(),
        ..Daemon::new(Role::Serve(memcached::PORT))
    })
    .expect("the daemon lends a link");
    let mut server = memcached::Server::new(&mut exos).expect("free ports");
    let item = Item {
        flags: 0,
        expires: None,
        value: b"value".to_vec(),
    };
    server.cache.set(b"key", item).expect("room");
    let refused = server.answer_in_kernel(&mut exos);
    assert_eq!(refused, [""; 0], "a place for each");
    let mut turn = |exos: &mut Exos| {
        exos.receive();
        server.answer(exos).expect("it is the same as before");
        exos.send().expect("there is room");
        server.cache.connection_gets()
    };
    let answer = b"VALUE key 0 5\r\nvalue\r\nEND\r\n";
    // Where the program has no turn for long, a connection is its own.
    let mut by_connection = |exos: &mut Exos| {
        let before = turn(exos);
        within(Duration::from_secs(20), || {
            let client = lab.over_there(|| std::thread::spawn(get_by_connection));
            while !client.is_finished() {
                turn(exos);
            }
            assert_eq!(client.join().expect("it is answered"), answer);
            turn(exos) > before
        })
    };
    assert!(by_connection(&mut exos), "the program has answered");
    let asker = Asker::of(&lab, memcached::PORT);
    let question = b"\0\x01\0\0\0\x01\0\0get key\r\n";
    let mut got = [0; 64];
    asker.0.send(question).expect("a neighbour");
    let len = asker.0.recv(&mut got).expect("without the program");
    assert_eq!(got[8..len], *answer);

    exos.remove_handler_of(memcached::PORT)
        .expect("the daemon is there");
    assert!(by_connection(&mut exos), "requests are the kernel's still");
    asker.0.send(question).expect("a neighbour");
    asker.0.set_nonblocking(true).expect("a socket");
    assert!(asker.0.recv(&mut got).is_err(), "it waits for the program");
    let answered = within(Duration::from_secs(5), || {
        turn(&mut exos);
        asker.0.recv(&mut got).is_ok()
    });
    assert!(answered && got[8..len] == *answer);
}

/// What a connection is answered.
fn get_by_connection() -> Vec<u8> {
    let mut stream = TcpStream::connect((OURS, memcached::PORT)).expect("it listens");
    let patience = Some(Duration::from_secs(10));
    stream.set_read_timeout(patience).expect("not zero");
    stream.write_all(b"get key\r\n").expect("it is open");
    let mut got = vec![0; b"VALUE key 0 5\r\nvalue\r\nEND\r\n".len()];
    stream.read_exact(&mut got).expect("an answer");
    got
}

/// Nobody could take out the handler that the kernel runs then.
#[test]
fn no_handler_runs_here_while_the_daemon_is_gone() {
    let Some((mut lab, _takes)) = lab_of("handler-gone") else {
        return;
    };
    let mut exos = Exos::attach(Daemon {
        socket: lab.socket(),
        ..Daemon::new(Role::Connect(Vec::new()))
    })
    .expect("the daemon lends a link");
    let counters = remote_increment::download(&mut exos).expect("it is sound");
    assert_eq!(counters.place(), Place::Kernel);
    let asker = Asker::new(&lab);
    assert_eq!(asker.ask(7, 1), 0);
    lab.kill();
    assert!(remote_increment::download(&mut exos).is_err());
    // However often it is asked, since the kernel has it still.
    for _ in 0..2 {
        assert!(exos.remove_handler_of(PORT).is_err());
    }
    assert_eq!(asker.ask(7, 1), 1);
    assert_eq!(remote_increment::sum(&counters), 2, "as before");
}

/// A message is answered by the program's turns, which are not needed once policy has the kernel do it.
#[test]
fn a_program_without_steps_runs_its_handler_itself() {
    let Some((mut lab, _takes)) = lab_of("handler-here") else {
        return;
    };
    lab.stop();
    let rule = |steps: u64| format!("[[allow]]\nuser = \"root\"\nhandler_steps = {steps}\n");
    lab.start_by(&rule(0));
    let mut exos = Exos::attach(Daemon {
        socket: lab.socket(),
        ..Daemon::new(Role::Connect(Vec::new()))
    })
    .expect("the daemon lends a link");
    let counters = remote_increment::download(&mut exos).expect("it is sound");
    assert_ne!(counters.place(), Place::Kernel);
    let why = counters.not_in_kernel().expect("policy").to_string();
    assert!(why.contains("handler_steps"), "{why}");
    let asker = Asker::new(&lab);
    // It waits in `peek` for no longer than a turn takes.
    let shortly = Some(Duration::from_millis(10));
    asker.0.set_read_timeout(shortly).expect("not zero");
    asker.0.send(&[0; 12]).expect("a neighbour");
    let answered = within(Duration::from_secs(5), || {
        exos.receive();
        exos.send().expect("there is room");
        asker.0.peek(&mut [0; 64]).is_ok()
    });
    assert!(answered);
    lab.reload(&rule(1_000_000));
    assert!(within(Duration::from_secs(10), || {
        let counters = remote_increment::download(&mut exos).expect("it is sound");
        counters.place() == Place::Kernel
    }));
    assert_eq!(asker.0.recv(&mut [0; 64]).expect("it waits"), 12);
    let patience = Some(Duration::from_secs(5));
    asker.0.set_read_timeout(patience).expect("not zero");
    assert_eq!(asker.ask(7, 1), 0);
}

/// What the kernel has no steps for, and all messages of a handler that its verifier does not follow, are answered by the program, on memory
/// that it has together with the kernel: each once.
#[test]
fn what_the_kernel_leaves_the_program_answers() {
    let Some((mut lab, _takes)) = lab_of("handler-rest") else {
        return;
    };
    lab.stop();
    lab.start_by("[[allow]]\nuser = \"root\"\nhandler_steps = 10000\n");
    let mut exos = Exos::attach(Daemon {
        socket: lab.socket(),
        ..Daemon::new(Role::Connect(Vec::new()))
    })
    .expect("the daemon lends a link");
    let counters = remote_increment::download(&mut exos).expect("it is sound");
    assert_eq!(counters.place(), Place::Kernel);
    let text = format!(
        "handler h {{ words w[1048576]; need 12; {} p = &w[x]; before = add(p, be64(4)); reply 12 {{ be64(4) = before; }} }}",
        too_many_ways()
    );
    let handler = exos::ash::parse(&text).expect("it is sound");
    let other = exos.download(handler, PORT + 1).expect("the port is free");
    assert_eq!(other.place(), Place::Compiled);
    let why = other.not_in_kernel().expect("the verifier").to_string();
    assert!(why.contains("too many ways"), "{why}");
    let asker = Asker::new(&lab);
    asker.0.set_nonblocking(true).expect("a socket");
    let answers = |exos: &mut Exos| {
        for _ in 0..50 {
            let message = [&7u32.to_be_bytes()[..], &1u64.to_be_bytes()].concat();
            asker.0.send(&message).expect("a neighbour");
        }
        let (mut came, mut answer) = (Vec::new(), [0; 64]);
        let all = within(Duration::from_secs(10), || {
            exos.receive();
            exos.send().expect("there is room");
            while asker.0.recv(&mut answer).is_ok() {
                came.push(answer[11]);
            }
            came.len() == 50
        });
        came.sort_unstable();
        assert!(all && came.iter().copied().eq(0..50), "{came:?}");
    };
    answers(&mut exos);
    assert_eq!(remote_increment::sum(&counters), 50);
    let by_us = |exos: &Exos| exos.stack.counters().handler_answered;
    let here = by_us(&exos);
    assert!((1..50).contains(&here), "some by the kernel, not {here}");
    asker.0.connect((OURS, PORT + 1)).expect("a route");
    answers(&mut exos);
    assert_eq!(by_us(&exos), here + 50);
}
