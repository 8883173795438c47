//! Keeping what was given back: descriptors in a process that goes on, mappings, and the next slot on top of it.
//!
//! The kernel takes no socket and no memory from the one that has it. So it counts as long as anybody has it, and the user who
//! does that again and again comes to the bounds of policy: 16 programs, 64 MiB, two rings for copies of packets.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use exos_xok::message::{Answer, Mode, Refusal, Request};
use exos_xokd::limits::TAPS_PER_USER_MAX;
use rustix::io::FdFlags;
use rustix::thread::UnshareFlags;

use crate::attacks::attacker::Hostile;
use crate::attacks::games;
use crate::attacks::program::attach_request;
use crate::attacks::world::{World, case, within};

/// Half of a user's memory, as it is asked for; a quarter, as it is counted then: chunks are 2048 bytes at this MTU.
const MANY_CHUNKS: u32 = 8192;

/// A process that has these descriptors and does nothing, until it is told to end.
struct Keeper(Child);

impl Keeper {
    fn of(descriptors: &[OwnedFd]) -> Self {
        for descriptor in descriptors {
            rustix::io::fcntl_setfd(descriptor, FdFlags::empty()).expect("it is open");
        }
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        Self(command.spawn().expect("a child"))
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        self.0.wait().expect("it ends");
    }
}

/// A process with a socket of AF_XDP in a namespace of its own, which shares the memory of a slot's and has nothing else of
/// it.
fn sharer(slots: &OwnedFd) -> Keeper {
    let slots = slots.try_clone().expect("a descriptor");
    let share = move || {
        use rustix::net::{AddressFamily, SocketFlags, SocketType};
        own_namespaces()?;
        let (family, flags) = (AddressFamily::XDP, SocketFlags::empty());
        let own = rustix::net::socket_with(family, SocketType::RAW, flags, None)?;
        for ring in [
            libc::XDP_TX_RING,
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
        ] {
            games::set_option(&own, libc::SOL_XDP, ring, &64_u32)?;
        }
        games::bind_xdp(&own, 1, 0, Some(&slots))?;
        std::mem::forget(own); // It stays with the program.
        Ok(())
    };
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    // SAFETY: calls of the kernel alone, and no memory is taken.
    unsafe { command.pre_exec(share) };
    Keeper(command.spawn().expect("a child"))
}

/// For a child that has been made and has not started its program yet.
fn own_namespaces() -> std::io::Result<()> {
    // SAFETY: no memory is shared with anybody: this is a child that does nothing but this and starts a program.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNET) }?)
}

/// Whether this user may make namespaces here.
fn may_have_namespaces() -> bool {
    let mut command = Command::new("true");
    // SAFETY: a call of the kernel alone.
    unsafe { command.pre_exec(own_namespaces) };
    command.status().is_ok_and(|status| status.success())
}

/// Attaches, keeps what `keep` makes of the descriptors, and lets the slot go, until that is refused for what was kept.
fn until_refused<T>(
    hostile: &Hostile,
    request: &Request,
    keep: impl Fn(Vec<OwnedFd>) -> T,
) -> (Vec<T>, String) {
    let mut kept = Vec::new();
    loop {
        let connection = hostile.connect();
        let (answer, fds) = connection.ask(request);
        match answer {
            Answer::Attached { .. } => kept.push(keep(fds)),
            Answer::Refused {
                code: Refusal::Busy,
                text,
            } if text.contains("given back") => return (kept, text),
            // One slot is being taken still, or another may be had in a while.
            Answer::Refused {
                code: Refusal::Busy | Refusal::Limit,
                ..
            } => std::thread::sleep(Duration::from_millis(20)),
            other => panic!("{other:?}"),
        }
        assert!(kept.len() <= 16, "it never ends");
    }
}

/// For a slot with much memory.
fn much() -> Request {
    Request::Attach {
        interface: String::new(),
        mode: Mode::Auto,
        chunks: MANY_CHUNKS,
        program: "program".to_owned(),
    }
}

/// Keeps slots with much memory, until what is kept of that is all that the user may have.
fn keep_much<T>(hostile: &Hostile, keep: impl Fn(Vec<OwnedFd>) -> T) -> Vec<T> {
    let (kept, text) = until_refused(hostile, &much(), keep);
    assert_eq!(kept.len(), 3, "16 MiB each, and 32 are asked for");
    assert!(text.contains("memory_max"), "{text}");
    kept
}

/// How many slots are gone of which something is left.
fn leftovers(world: &World) -> usize {
    let report = world.report();
    let left = report["interfaces"][0]["leftovers"].as_array();
    left.expect("a list").len()
}

/// There is a slot to be had again.
fn must_be_free(hostile: &Hostile, request: &Request) {
    let (answer, _) = hostile.connect().ask_until_heard(request);
    assert!(matches!(answer, Answer::Attached { .. }), "{answer:?}");
}

/// All descriptors in children, as many slots as a user may have.
#[test]
fn descriptors_in_children() {
    case(
        |hostile| {
            let request = attach_request();
            let (kept, text) = until_refused(hostile, &request, |fds| Keeper::of(&fds));
            assert_eq!(kept.len(), 16);
            assert!(text.contains("programs_max = 16"), "{text}");
            hostile.say("refused");
            hostile.wait_for("go");
            kept.into_iter().for_each(Keeper::end);
            must_be_free(hostile, &request);
            hostile.say("free");
        },
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("refused");
            assert!(within(|| world.slots().is_empty()), "they were let go");
            assert_eq!(leftovers(world), 16);
            // Nobody else pays for it.
            drop(world.program());
            attacker.tell("go");
            attacker.must_say("free");
            attacker.finish();
        },
    );
}

/// One thing of each slot at a time: the ring's socket, a mapping of its rings, the memory, a mapping of that, the packet
/// socket.
#[test]
fn one_thing_of_each_slot() {
    enum Kept {
        Open(#[allow(dead_code)] OwnedFd),
        Mapped(*mut u8, usize),
    }
    impl Drop for Kept {
        fn drop(&mut self) {
            if let Self::Mapped(start, len) = *self {
                // SAFETY: the mapping was made here, and nothing refers to it.
                unsafe { rustix::mm::munmap(start.cast(), len) }.expect("it is ours");
            }
        }
    }
    fn keep(role: &str, mut fds: Vec<OwnedFd>) -> Kept {
        let map = |fd: &OwnedFd, offset| {
            let start = games::map_for_writing(fd.as_fd(), 4096, offset);
            Kept::Mapped(start.expect("it can be mapped"), 4096)
        };
        match role {
            "socket" => Kept::Open(fds.swap_remove(0)),
            "ring" => map(&fds[0], 0),
            "memory" => Kept::Open(fds.swap_remove(1)),
            "mapping" => map(&fds[1], 0),
            "packets" => Kept::Open(fds.swap_remove(2)),
            other => panic!("no such role: {other}"),
        }
    }
    case(
        |hostile| {
            let keep = |fds| keep(&hostile.role, fds);
            drop(keep_much(hostile, keep));
            must_be_free(hostile, &much());
            hostile.say("free");
        },
        |world| {
            for role in ["socket", "ring", "memory", "mapping", "packets"] {
                // The kernel takes a moment to take down what the one before had.
                assert!(within(|| world.slots().is_empty() && leftovers(world) == 0));
                let mut attacker = world.attacker_as(crate::attacks::attacker::NOBODY, role);
                attacker.must_say("free");
                attacker.finish();
            }
        },
    );
}

/// The memory of each slot in a socket of another namespace, where the program may make what it likes. Nobody has a socket
/// of the slot's own namespace, nor its memory open or mapped.
#[test]
fn memory_in_sockets_of_another_namespace() {
    case(
        |hostile| {
            if !may_have_namespaces() {
                return hostile.say("no namespaces");
            }
            let kept = keep_much(hostile, |fds| sharer(&fds[0]));
            hostile.say("refused");
            kept.into_iter().for_each(Keeper::end);
            must_be_free(hostile, &much());
            hostile.say("free");
        },
        |world| {
            let mut attacker = world.attacker();
            match attacker.says().as_str() {
                "no namespaces" => eprintln!("SKIPPED: users may make no namespaces here"),
                said => {
                    assert_eq!(said, "refused");
                    attacker.must_say("free");
                }
            }
            attacker.finish();
        },
    );
}

/// The rings of copies that have ended, each 8 MiB of the kernel's memory.
#[test]
fn rings_of_copies_that_have_ended() {
    case(
        |hostile| {
            let ask = || {
                let connection = hostile.connect();
                connection.ask(&Request::Tap {
                    interface: String::new(),
                    filter: String::new(),
                    snap: 64,
                    all: false,
                })
            };
            let mut kept = Vec::new();
            let text = loop {
                // The connection, and the copies with it, end at once.
                match ask() {
                    (Answer::Tapped { .. }, fds) => kept.push(Keeper::of(&fds)),
                    (Answer::Refused { code, text }, _) if text.contains("have ended") => {
                        assert_eq!(code, Refusal::Busy, "{text}");
                        break text;
                    }
                    // The connection of the one before is being taken still.
                    (Answer::Refused { .. }, _) => std::thread::sleep(Duration::from_millis(20)),
                    (other, _) => panic!("{other:?}"),
                }
                assert!(kept.len() <= TAPS_PER_USER_MAX, "it never ends");
            };
            assert_eq!(kept.len(), TAPS_PER_USER_MAX, "{text}");
            kept.into_iter().for_each(Keeper::end);
            // The kernel takes the rings down in its own time, and asking too often is refused, too.
            let free = within(|| {
                std::thread::sleep(Duration::from_millis(100));
                matches!(ask().0, Answer::Tapped { .. })
            });
            assert!(free, "there are copies to be had again");
            hostile.say("free");
        },
        |world| {
            // One who may see their own.
            world.must_be_attacked("free");
        },
    );
}

/// Whatever of another's slot can be reached by a name: namespaces that are opened, or of which a child of its own has the
/// mounts. Nobody pays for what somebody else holds.
#[test]
fn namespaces_of_anothers_slots() {
    case(
        |hostile| {
            hostile.wait_for("go");
            let named = std::fs::read_dir("/run/netns").into_iter().flatten();
            let named = named.filter_map(|entry| std::fs::File::open(entry.ok()?.path()).ok());
            let _opened: Vec<std::fs::File> = named.collect();
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            let copy_mounts = || {
                // SAFETY: a child that does nothing but this and starts a program.
                let copied = unsafe {
                    rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)
                };
                // Where users may make no namespaces, opening is all that there is to try.
                let _ = copied;
                Ok(())
            };
            // SAFETY: calls of the kernel alone, and no memory is taken.
            unsafe { command.pre_exec(copy_mounts) };
            let _keeper = Keeper(command.spawn().expect("a child"));
            hostile.say("holding");
            hostile.wait_for("gone");
        },
        |world| {
            let mut attacker = world.attacker();
            let programs = [(); 3].map(|()| world.program());
            attacker.tell("go");
            attacker.must_say("holding");
            drop(programs);
            assert!(within(|| world.slots().is_empty()), "they were let go");
            assert!(
                within(|| leftovers(world) == 0),
                "nobody has anything of them"
            );
            attacker.tell("gone");
            attacker.finish();
        },
    );
}
