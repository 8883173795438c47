//! What a processor does by wrong predictions of jumps (Spectre, variant 1): on no such way the program reaches beyond its memory or the
//! request, with numbers in the memory that say it should. Executed by an interpreter, without the kernel.

use exos_filter::handler::forward::WayOut;
use exos_filter::handler::web::layout::{self, REQUEST_MAX, copy, entry, slot};
use exos_filter::handler::web::lines::reduce;
use exos_filter::handler::{Handler as _, WebHandler};
use exos_testing::ebpf::{Map, Program, disassemble};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::bench::{ENTRIES, KEY, syns};
use super::client::Client;
use super::{ACK, PEERS, PSH};

const MEMORY: i32 = 1;
const SCRATCH: i32 = 2;
const COUNTERS: i32 = 3;
const PROGRAMS: i32 = 4;

const CLIENT: Client = Client {
    ipv6: false,
    peer: PEERS[0],
    port: 4000,
    stamped: false,
    is_windows: false,
    window: 64_240,
    mss: 1460,
    seq: 1000,
    ack: 2000,
    echo: 0,
};

fn handler() -> WebHandler {
    WebHandler {
        syn: syns(WayOut::Transmit, false),
        entries: ENTRIES,
        peer_connections: Some(5),
        rings: WebHandler::rings(ENTRIES, true, 1),
        memory_fd: MEMORY,
        scratch_fd: SCRATCH,
        key: KEY,
        second_stage: None,
        reports: true,
        http: true,
    }
}

/// Memory in which the client's connection stands, and the request, without its noise, has an entry whose response has any length.
fn memory(client: &Client, request: &[u8]) -> Vec<AtomicU64> {
    let len = WebHandler::rings(ENTRIES, true, 1).memory_len();
    let memory: Vec<_> = (0..len / 8).map(|_| AtomicU64::new(0)).collect();
    let set = |at: u64, value: u64| memory[at as usize / 8].store(value, Relaxed);
    set(layout::UNTIL, u64::MAX);
    let (ends, ports) = client.ends();
    let at = layout::SLOTS + layout::slot_of(KEY, ends, ports) * layout::SLOT_LEN;
    for (word, end) in ends.into_iter().enumerate() {
        set(at + slot::ENDS + 8 * word as u64, end);
    }
    set(at + slot::PORTS, ports.into());
    set(at + slot::STATE, slot::OPEN as u64);
    set(at + slot::RCV, 2000 << 32 | 1000);
    set(at + slot::UNA, 2000);
    set(at + slot::ENTRY, u64::from(u32::MAX));
    let reduced = reduce(request).map(|reduced| reduced.request);
    let request = reduced.as_deref().unwrap_or(request);
    let hash = layout::hash(KEY, request);
    let at = layout::ENTRIES + ENTRIES.first_way(hash);
    set(at + entry::TAG, hash);
    set(at + entry::REQUEST_LEN, request.len() as u64);
    set(at + entry::VERSION, u64::MAX);
    for (word, part) in request.chunks(8).enumerate() {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        let at = at + ENTRIES.request() + 8 * word as u64;
        set(at, u64::from_ne_bytes(bytes));
    }
    for number in 0..2 {
        set(
            at + entry::COPIES + number * ENTRIES.copy_len() + copy::LEN,
            1 << 40,
        );
    }
    memory
}

/// The jumps that were wrong where the program reached beyond: two at most, near each other.
fn leads_out(code: &[u64], memory: &[AtomicU64], packet: &[u8]) -> Option<Vec<usize>> {
    let words = |bytes: usize| -> Vec<_> { (0..bytes / 8).map(|_| AtomicU64::new(0)).collect() };
    let (scratch, counters) = (words(WebHandler::SCRATCH_LEN), words(8 * 64));
    let array = |words, value_len| Map::Array { words, value_len };
    let maps = vec![
        (MEMORY, array(memory, 8 * memory.len())),
        (SCRATCH, array(&scratch[..], WebHandler::SCRATCH_LEN)),
        (COUNTERS, array(&counters[..], 8)),
        (PROGRAMS, Map::Programs),
    ];
    let program = Program::new(code, maps);
    let ahead = |wrong: &[usize]| program.ahead(packet, 0, wrong);
    let count = ahead(&[]).jumps.len();
    // Two near each other; and a loop that goes on for six rounds too long, each of which has two jumps, or three.
    let pairs = (0..count).flat_map(|a| (a..a + 8).map(move |b| vec![a, b]));
    let rounds = (0..count).flat_map(|a| {
        [2, 3].map(|each| {
            (0..6)
                .flat_map(|round| [a, a + 1].map(|at| at + each * round))
                .collect()
        })
    });
    pairs
        .chain(rounds)
        .find(|wrong| !ahead(wrong).beyond.is_empty())
}

/// One whose answer is found without noise: a line that counts, one for the log, and one that is noise.
const THREE_LINES: &[u8] = b"GET / HTTP/1.1\r\nReferer: a\r\nAccept: b\r\n\r\n";

/// What leads out with a program: the first request by its length.
fn first_that_leads_out(code: &[u64]) -> Option<(usize, Vec<usize>)> {
    let lengths = [8, REQUEST_MAX, REQUEST_MAX + 1, REQUEST_MAX + 400];
    let of_one = lengths.into_iter().map(|len| vec![b'r'; len]);
    let mut requests = of_one.chain([THREE_LINES.to_vec()]);
    requests.find_map(|request| {
        let packet = CLIENT.frame(ACK | PSH, &request);
        let wrong = leads_out(code, &memory(&CLIENT, &request), &packet)?;
        Some((request.len(), wrong))
    })
}

/// The packet chooses where its TCP header is, and nothing it finds there by mistake leads out of the memory. What is behind the packet may
/// still be read there: that is not looked at here.
#[test]
fn no_mistaken_way_behind_extension_headers_leads_out() {
    let client = Client {
        ipv6: true,
        peer: PEERS[1],
        ..CLIENT
    };
    let mut packet = client.frame(ACK | PSH, b"GET /");
    packet[20] = 43;
    packet[19] += 8;
    // A routing header, and one that says it has 2,048 bytes in place of its 8.
    for len in [0, 255] {
        let mut packet = packet.clone();
        packet.splice(54..54, [6, len, 99, 0, 0, 0, 0, 0]);
        let code = handler().program(PROGRAMS, COUNTERS).words();
        let wrong = leads_out(&code, &memory(&client, b"GET /"), &packet);
        assert_eq!(wrong, None, "{len}\n{}", disassemble(&code));
    }
}

/// The program without one of its clamps, each once: a shift by the sign, or an `and` where a place in the request is masked.
fn without_a_clamp(code: &[u64]) -> Vec<Vec<u64>> {
    const SIGN: u64 = 63 << 32 | 0xc7;
    const AND: u64 = (REQUEST_MAX as u64 - 1) << 32 | 0x57;
    const SET: u64 = 0xb7;
    const OPERATION: u64 = 0xffff_ffff_0000_00ff;
    let mut all = Vec::new();
    for (at, word) in code.iter().enumerate() {
        let operation = match word & OPERATION {
            SIGN => SET,
            AND => AND & 0xff,
            _ => continue,
        };
        let mut without = code.to_vec();
        without[at] = 0xffff_ffff << 32 | word & 0xff00 | operation;
        all.push(without);
    }
    all
}

#[test]
fn no_mistaken_way_leads_out_of_the_memory_or_the_request() {
    let code = handler().program(PROGRAMS, COUNTERS).words();
    let reduced = reduce(THREE_LINES).expect("a request with noise");
    assert_eq!(reduced.request, b"GET / HTTP/1.1\r\n\r\n");
    let wrong = first_that_leads_out(&code);
    assert_eq!(wrong, None, "{}", disassemble(&code));
    let without = without_a_clamp(&code);
    // Of the request's length, of what is left of it to sum, of a place that is hashed, of one that is compared. The others are of
    // entries beside that one, of a place that is looked for noise (which only very many such ways lead behind the request), and of the
    // response's length (twice).
    assert_eq!(without.len(), 10, "{}", disassemble(&code));
    for (number, code) in without.iter().enumerate().take(4) {
        let wrong = first_that_leads_out(code);
        assert!(wrong.is_some(), "{number}\n{}", disassemble(code));
    }
}
