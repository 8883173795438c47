//! Reading others' packets: by the ring, by its descriptors bound again, by copies, by what others hold.
//!
//! The case sends packets to an honest program, to nobody and to the hostile one, in this order; the last of them
//! arriving shows that the first ones did not.

use std::os::fd::{AsFd as _, OwnedFd};

use exos_host::bpf::RingbufReader;
use exos_xok::message::{Answer, Refusal, Request, VERSION};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::attacks::attacker::{Attacker, Hostile, NOBODY, SOMEBODY};
use crate::attacks::games;
use crate::attacks::program::{Connection, Program, refusal};
use crate::attacks::world::{
    MARK, OURS, ROOTS, World, case, is_marked, must_be_clean, to_us, within,
};
use crate::packets;

const PORT: u16 = 7000;
const HELD: u16 = 8000;
const LAST: &[u8] = b"this is for you";

/// The honest program's packets, and the hostile one's behind them.
fn send_to_both(world: &World, beside: &mut Program) {
    for _ in 0..10 {
        world.far.send(&packets::udp(&to_us(OURS, HELD), MARK));
        world.far.send(&packets::udp(&to_us(ROOTS, HELD), MARK));
    }
    beside.receive_up_to(MARK);
    world.far.send(&packets::udp(&to_us(OURS, PORT), LAST));
}

/// The hostile program plays; then the packets come; then it is asked whether it has seen any.
fn nothing_is_read(world: &World) -> Attacker {
    let mut beside = world.program();
    beside.connection.must_claim(HELD);
    let mut attacker = world.attacker();
    attacker.must_say("ready");
    send_to_both(world, &mut beside);
    attacker.tell("sent");
    attacker.must_say("only mine");
    attacker
}

fn reads_only_its_own(hostile: &Hostile, program: &mut Program) {
    hostile.say("ready");
    hostile.wait_for("sent");
    must_be_clean(&program.receive_up_to(LAST));
    hostile.say("only mine");
}

/// Not to the device, its queues, whatever else there may be: it is bound, once and for all, with its rings and its memory.
fn cannot_be_bound_again(xdp: &OwnedFd) {
    for interface in 0..16 {
        for queue in [0, 1] {
            let error = games::bind_xdp(xdp, interface, queue, None);
            assert_eq!(error, Err(Errno::BUSY), "{interface} {queue}");
        }
        let error = games::bind_xdp(xdp, interface, 0, Some(xdp));
        assert!(error.is_err(), "{interface}: {error:?}");
    }
    for option in [
        libc::XDP_RX_RING,
        libc::XDP_TX_RING,
        libc::XDP_UMEM_FILL_RING,
        libc::XDP_UMEM_COMPLETION_RING,
    ] {
        let error = games::set_option(xdp, libc::SOL_XDP, option, &4096_u32);
        assert!(error.is_err(), "{option}: {error:?}");
    }
    let region = [0_u64; 4];
    assert!(games::set_option(xdp, libc::SOL_XDP, libc::XDP_UMEM_REG, &region).is_err());
}

/// The packet socket may be bound to what is in its namespace, which is its own end, and have no ring.
fn has_its_own_end_alone(packet: &OwnedFd) {
    let bound: Vec<u32> = (0..64)
        .filter(|interface| games::bind_packets(packet, *interface).is_ok())
        .collect();
    assert!(bound.len() <= 3, "all, loopback and its own: {bound:?}");
    games::bind_packets(packet, 0).expect("all of its namespace");
    let ring = libc::tpacket_req {
        tp_block_size: 1 << 20,
        tp_block_nr: 64,
        tp_frame_size: 2048,
        tp_frame_nr: 64 * 512,
    };
    for option in [libc::PACKET_RX_RING, libc::PACKET_TX_RING] {
        let error = games::set_option(packet, libc::SOL_PACKET, option, &ring);
        assert_eq!(
            error,
            Err(Errno::BUSY),
            "kernel memory that nobody accounts for"
        );
    }
}

#[test]
fn by_the_sockets_bound_anew() {
    case(
        |hostile| {
            let mut program = hostile.attach();
            program.connection.must_claim(PORT);
            let [xdp, _memory, packet] = &program.descriptors[..] else {
                panic!("three descriptors")
            };
            cannot_be_bound_again(xdp);
            has_its_own_end_alone(packet);
            reads_only_its_own(hostile, &mut program);
            let mut buffer = vec![0; 1 << 16];
            while let Ok((len, _)) = rustix::net::recv(
                &program.descriptors[2],
                &mut buffer[..],
                rustix::net::RecvFlags::DONTWAIT,
            ) {
                assert!(!is_marked(&buffer[..len]));
            }
        },
        |world| nothing_is_read(world).finish(),
    );
}

#[test]
fn by_sockets_maps_and_processes_that_are_not_its_own() {
    case(
        |hostile| {
            let mut program = hostile.attach();
            program.connection.must_claim(PORT);
            let (daemon, beside) = (hostile.hear(), hostile.hear());
            for (family, kind) in [
                (libc::AF_XDP, libc::SOCK_RAW),
                (libc::AF_PACKET, libc::SOCK_RAW),
                (libc::AF_PACKET, libc::SOCK_DGRAM),
                (libc::AF_INET, libc::SOCK_RAW),
                (libc::AF_INET6, libc::SOCK_RAW),
            ] {
                let error = games::socket(family, kind, 255);
                assert_eq!(error, Err(Errno::PERM), "{family} {kind}");
            }
            // linux/bpf.h: BPF_PROG_GET_FD_BY_ID 13, BPF_MAP_GET_FD_BY_ID 14, BPF_LINK_GET_FD_BY_ID 30.
            for command in [13, 14, 30] {
                for id in 1..200 {
                    let mut attributes = [0; 16];
                    attributes[0] = id;
                    let error = games::bpf(command, &attributes);
                    assert_eq!(error, Err(Errno::PERM), "{command} {id}");
                }
            }
            for place in ["/sys/fs/bpf/exos", "/run/exos"] {
                let files = std::fs::read_dir(place).into_iter().flatten().flatten();
                for file in files.flat_map(|d| std::fs::read_dir(d.path())).flatten() {
                    let path = file.expect("listed").path();
                    let opened = std::fs::File::options().read(true).write(true).open(&path);
                    assert!(opened.is_err(), "{}", path.display());
                }
            }
            for name in exos_host::netns::NetNs::list().unwrap_or_default() {
                let there = exos_host::netns::NetNs::open(&name).and_then(|n| n.run(|| ()));
                assert!(there.is_err(), "{name}");
            }
            for pid in [daemon, beside].map(|pid| pid.parse().expect("a number")) {
                for fd in 0..64 {
                    assert_eq!(games::steal(pid, fd), Err(Errno::PERM), "{pid} {fd}");
                }
                assert!(std::fs::read_dir(format!("/proc/{pid}/fd")).is_err());
            }
            reads_only_its_own(hostile, &mut program);
        },
        |world| {
            let mut beside = world.program();
            beside.connection.must_claim(HELD);
            let mut attacker = world.attacker();
            attacker.tell(&world.daemon_pid().to_string());
            attacker.tell(&std::process::id().to_string());
            attacker.must_say("ready");
            send_to_both(world, &mut beside);
            attacker.tell("sent");
            attacker.must_say("only mine");
            attacker.finish();
        },
    );
}

/// What everybody reads nobody but the daemon writes, and nobody can cut it off under the others.
#[test]
fn by_writing_to_what_all_read() {
    case(
        |hostile| {
            let program = hostile.attach();
            let hello = Request::Hello { version: VERSION };
            let (_, tables) = program.connection.ask(&hello);
            let (_, report) = program.connection.ask(&Request::Status);
            let (tables, report) = (&tables[0], &report[0]);
            for (what, fd) in [("tables", tables), ("report", report)] {
                assert!(
                    games::map_for_writing(fd.as_fd(), 4096, 0).is_err(),
                    "{what}"
                );
                assert!(rustix::io::pwrite(fd, b"x", 0).is_err(), "{what}");
                assert!(rustix::fs::ftruncate(fd, 0).is_err(), "{what}");
                // Opened again, with whatever access there may be.
                let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(fd));
                if let Ok(again) = std::fs::File::options().read(true).write(true).open(path) {
                    assert!(
                        games::map_for_writing(again.as_fd(), 4096, 0).is_err(),
                        "{what}"
                    );
                    assert!(rustix::io::pwrite(&again, b"x", 0).is_err(), "{what}");
                    assert!(again.set_len(0).is_err(), "{what}");
                }
            }
            let memory: &OwnedFd = &program.descriptors[1];
            assert_eq!(rustix::fs::ftruncate(memory, 1 << 40), Err(Errno::PERM));
            // The ring has its pages, and none of them can be taken out.
            let write = rustix::fs::SealFlags::WRITE;
            assert_eq!(rustix::fs::fcntl_add_seals(memory, write), Err(Errno::BUSY));
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let punched = rustix::fs::fallocate(memory, hole, 0, 4096);
            assert_eq!(punched, Err(Errno::PERM));
            hostile.say("refused");
        },
        |world| {
            world.must_be_attacked("refused");
            assert!(world.report()["interfaces"].is_array());
        },
    );
}

fn tap(connection: &Connection, filter: &str, all: bool) -> (Answer, Vec<OwnedFd>) {
    connection.ask(&Request::Tap {
        interface: String::new(),
        filter: filter.to_owned(),
        snap: 1500,
        all,
    })
}

#[test]
fn by_copies_without_leave() {
    case(
        |hostile| {
            let program = hostile.attach();
            let all = hostile.role == "of all";
            for filter in ["", "udp", "udp port 8000"] {
                let (answer, fds) = tap(&program.connection, filter, all);
                assert_eq!(refusal(&answer), Refusal::NotAllowed);
                assert!(fds.is_empty());
            }
            // Longer than may be said ends the connection; what cannot be read is refused.
            let (answer, _) = tap(&program.connection, "udp or (", false);
            let code = refusal(&answer);
            assert!(matches!(code, Refusal::NotAllowed | Refusal::BadRequest));
            hostile.say("refused");
        },
        |world| {
            // One user may see their own, the other none at all.
            for (uid, role) in [(NOBODY, "of all"), (SOMEBODY, "of its own")] {
                let mut attacker = world.attacker_as(uid, role);
                attacker.must_say("refused");
                attacker.finish();
            }
            world.daemon_must_count("refused_not_allowed", 6);
        },
    );
}

/// A copy of one's own packets stays one of one's own when the slot's number is another's.
#[test]
fn by_copies_of_a_slot_that_is_anothers() {
    case(
        |hostile| {
            let watcher = hostile.connect();
            let (answer, mut fds) = tap(&watcher, "", false);
            assert!(matches!(answer, Answer::Tapped { .. }), "{answer:?}");
            let ring = fds.pop().expect("a ring");
            let size = exos_xokd::limits::TAP_RING_BYTES as usize;
            let mut reader = RingbufReader::new(ring, size).expect("it may be read");
            let program = hostile.attach();
            program.connection.must_claim(PORT);
            drop(program);
            hostile.say("gone");
            hostile.wait_for("sent");
            let program = hostile.attach();
            program.connection.must_claim(PORT);
            hostile.say("back");
            let mut record = Vec::new();
            let mut ends = false;
            let done = within(|| {
                while reader.read(&mut record).expect("readable") {
                    assert!(!is_marked(&record), "a copy of another's packet");
                    ends |= record.windows(LAST.len()).any(|bytes| bytes == LAST);
                }
                ends
            });
            assert!(done, "its own packets are copied");
        },
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("gone");
            assert!(within(|| world.slots().is_empty()));
            let mut heir = world.program();
            heir.connection.must_claim(HELD);
            for _ in 0..10 {
                world.far.send(&packets::udp(&to_us(OURS, HELD), MARK));
            }
            heir.receive_up_to(MARK);
            attacker.tell("sent");
            attacker.must_say("back");
            world.far.send(&packets::udp(&to_us(OURS, PORT), LAST));
            attacker.finish();
        },
    );
}
