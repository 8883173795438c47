//! `exos dump` with a daemon, played by this test: records come through a BPF ring buffer of the real
//! kernel, names and losses from a report.
//!
//! Without root the test says SKIPPED and passes.

use std::fs::File;
use std::io::{IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread::JoinHandle;

use clap::Parser as _;
use exos_dump::file::{CaptureReader, Item};
use exos_dump::{Direction, DumpArgs, run};
use exos_filter::ebpf::{Assembler, Condition, Emit, Helper, Reg};
use exos_filter::gate::{Counter, TapRecord, Verdict};
use exos_host::bpf::{Map, Prog};
use exos_xok::message::{Answer, Request, VERSION};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept, bind, listen, recv, sendmsg, socket_with,
};

const FRAME_LEN: usize = 60;
const RECORD_LEN: usize = TapRecord::LEN + FRAME_LEN;
const RING_BYTES: u32 = 1 << 16;

const REPORT: &str = r#"{"schema": "exos.daemon.status/1", "taps": [{"tap": 9, "lost": 4}, {"tap": 1, "lost": 99}],
    "interfaces": [{"name": "eth7", "ifindex": 7, "slots": [{"slot": 3, "program": "serve"}]}]}"#;

/// A program that puts what it is run with into the ring, as the gate does with a packet and its header.
fn recorder(ring: &Map) -> Prog {
    let mut asm = Assembler::new();
    let full = asm.label();
    asm.set(Reg::R6, Reg::R1);
    asm.load_map(Reg::R1, ring.as_fd().as_raw_fd());
    asm.set(Reg::R2, RECORD_LEN as i32);
    asm.set(Reg::R3, 0);
    asm.call(Helper::RingbufReserve);
    asm.jump_if(Reg::R0, Condition::Equal, 0, full);
    asm.set(Reg::R7, Reg::R0);
    asm.set(Reg::R1, Reg::R6);
    asm.set(Reg::R2, 0);
    asm.set(Reg::R3, Reg::R7);
    asm.set(Reg::R4, RECORD_LEN as i32);
    asm.call(Helper::XdpLoadBytes);
    asm.set(Reg::R1, Reg::R7);
    asm.set(Reg::R2, 0);
    asm.call(Helper::RingbufSubmit);
    asm.bind(full);
    asm.set(Reg::R0, 2);
    asm.exit();
    let insns = asm.finish().expect("all labels are bound");
    let words: Vec<u64> = insns
        .into_iter()
        .map(exos_filter::ebpf::Insn::to_word)
        .collect();
    Prog::load(&words, "dump_test", false).expect("the verifier takes it")
}

fn record(number: u8, slot: u16, direction: Direction, verdict: Verdict) -> Vec<u8> {
    let head = TapRecord {
        time_ns: u64::from(number),
        length: 1500,
        captured: FRAME_LEN as u32,
        slot,
        direction,
        verdict,
        ifindex: 7,
    };
    [&head.to_bytes()[..], &[number; FRAME_LEN]].concat()
}

/// What was asked for, and the answers.
fn answer(request: &Request, ring: &Map) -> (Answer, Vec<OwnedFd>) {
    match request {
        Request::Hello { version: VERSION } => {
            let welcome = Answer::Welcome {
                version: VERSION,
                pid: 1,
                interfaces: Vec::new(),
            };
            (welcome, Vec::new())
        }
        Request::Tap { .. } => {
            let fd = ring.as_fd().try_clone_to_owned().expect("a descriptor");
            (Answer::Tapped { tap: 9 }, vec![fd])
        }
        Request::Status => {
            let mut file = File::from(memfd_create("report", MemfdFlags::CLOEXEC).expect("a file"));
            file.write_all(REPORT.as_bytes()).expect("written");
            let bytes = REPORT.len() as u32;
            let asker = "{}".to_owned();
            (Answer::Report { bytes, asker }, vec![file.into()])
        }
        other => panic!("not expected: {other:?}"),
    }
}

fn say(to: &OwnedFd, bytes: &[u8], fds: &[OwnedFd]) {
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    }
    sendmsg(
        to,
        &[IoSlice::new(bytes)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )
    .expect("said");
}

/// A daemon for one client; gives back all that it was asked.
fn daemon(path: &Path, ring: Map, records: Vec<Vec<u8>>) -> JoinHandle<Vec<Request>> {
    let flags = SocketFlags::CLOEXEC;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket");
    bind(&socket, &SocketAddrUnix::new(path).expect("a path")).expect("bound");
    listen(&socket, 1).expect("listening");
    std::thread::spawn(move || {
        let client = accept(&socket).expect("a client");
        let recorder = recorder(&ring);
        let (mut asked, mut buffer) = (Vec::new(), vec![0; 65536]);
        loop {
            let (len, _) =
                recv(&client, &mut buffer[..], rustix::net::RecvFlags::empty()).expect("heard");
            if len == 0 {
                return asked;
            }
            let (tag, request) = Request::decode(&buffer[..len]).expect("a request");
            let (said, fds) = answer(&request, &ring);
            say(&client, &said.encode(tag), &fds);
            if matches!(request, Request::Tap { .. }) {
                for record in &records {
                    recorder.test_run(record).expect("it runs");
                }
            }
            asked.push(request);
        }
    })
}

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    args: DumpArgs,
}

#[test]
fn records_become_packets_with_names_and_losses() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: BPF programs need root");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, file) = (folder.path().join("socket"), folder.path().join("file"));
    let ring = Map::ringbuf("dump_test", RING_BYTES).expect("a ring buffer");
    let records = vec![
        record(1, 3, Direction::In, Verdict::Slot),
        record(2, TapRecord::NO_SLOT, Direction::In, Verdict::Host),
        record(3, 3, Direction::Out, Verdict::Dropped(Counter::TxBadSource)),
        record(4, 3, Direction::Out, Verdict::Wire),
    ];
    let daemon = daemon(&socket, ring, records);
    let (socket_text, file_text) = (socket.to_str().expect("text"), file.to_str().expect("text"));
    let line = [
        "dump",
        "--xokd",
        socket_text,
        "-w",
        file_text,
        "-c",
        "3",
        "-s",
        "100",
        "-i",
        "eth7",
        "tcp",
        "port",
        "80",
    ];
    run(Cli::parse_from(line).args).expect("it ends after three packets");
    let asked = daemon.join().expect("the daemon was content");
    let expected = Request::Tap {
        interface: "eth7".to_owned(),
        filter: "tcp port 80".to_owned(),
        snap: 100,
        // Root need not ask for it.
        all: true,
    };
    assert!(asked.contains(&expected), "{asked:?}");
    holds_three_packets(&file);
}

/// The file has the first three, with their programs and verdicts, and says how many are lost.
fn holds_three_packets(file: &Path) {
    let content = std::fs::read(file).expect("a file");
    let mut reader = CaptureReader::new(&content[..]).expect("a capture");
    let mut seen = Vec::new();
    while let Some(Item::Packet(packet)) = reader.next_item().expect("whole") {
        assert_eq!((packet.bytes.len(), packet.len), (FRAME_LEN, 1500));
        assert_eq!(packet.origin.interface.as_deref(), Some("eth7"));
        // The wall clock's, not the monotonic one's.
        assert!(packet.time_ns > 1_600_000_000_000_000_000);
        let origin = packet.origin;
        let verdict = origin.verdict.expect("a verdict");
        seen.push((
            packet.bytes[0],
            origin.program,
            origin.direction,
            verdict.name,
            verdict.is_drop,
        ));
    }
    let serve = Some("serve".into());
    assert_eq!(
        seen,
        [
            (1, serve.clone(), Some(Direction::In), "slot".into(), false),
            (2, None, Some(Direction::In), "host".into(), false),
            (3, serve, Some(Direction::Out), "tx_bad_source".into(), true),
        ]
    );
    assert_eq!(reader.lost(), 4);
}
