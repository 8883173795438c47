//! What the kernel does for anyone who has a packet socket, beside sending: here, what it writes into the machine's log.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;

use crate::attacks::games;
use crate::attacks::world::case;

/// How often a membership is taken and given back on each interface.
const TOGGLES: usize = 200;

/// Indices of interfaces in a slot's namespace are small.
const INDICES: std::ops::RangeInclusive<i32> = 1..=16;

/// The kernel's log from here on.
fn log() -> Option<File> {
    let mut log = File::options();
    let log = log.read(true).custom_flags(libc::O_NONBLOCK);
    let mut log = log.open("/dev/kmsg").ok()?;
    log.seek(SeekFrom::End(0)).ok()?;
    Some(log)
}

/// How many lines have been written since that say that an interface takes no foreign frames any more.
fn lines(mut log: File) -> usize {
    let mut lines = 0;
    let mut record = vec![0; 8192];
    loop {
        match log.read(&mut record) {
            Ok(len) => {
                let text = String::from_utf8_lossy(&record[..len]);
                lines += usize::from(text.contains(": left promiscuous mode"));
                lines += usize::from(text.contains(": left allmulticast mode"));
            }
            // Overwritten before it was read.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
            Err(_) => return lines,
        }
    }
}

/// Memberships of the packet socket, taken and given back. Each would be two lines.
#[test]
fn memberships_taken_and_given_back() {
    case(
        |hostile| {
            let program = hostile.attach();
            let socket = &program.descriptors[2];
            let mut taken = 0;
            for mr_ifindex in INDICES {
                for kind in [libc::PACKET_MR_PROMISC, libc::PACKET_MR_ALLMULTI] {
                    let request = libc::packet_mreq {
                        mr_ifindex,
                        mr_type: kind as u16,
                        mr_alen: 0,
                        mr_address: [0; 8],
                    };
                    let change = |what| games::set_option(socket, libc::SOL_PACKET, what, &request);
                    for _ in 0..TOGGLES {
                        taken += usize::from(change(libc::PACKET_ADD_MEMBERSHIP).is_ok());
                        let _ = change(libc::PACKET_DROP_MEMBERSHIP);
                    }
                }
            }
            assert!(taken >= 4 * TOGGLES, "of its end and of loopback");
            hostile.say("done");
        },
        |world| {
            let Some(log) = log() else {
                eprintln!("SKIPPED: the kernel's log cannot be read");
                return;
            };
            world.must_be_attacked("done");
            // Other interfaces of the machine may have a few.
            let lines = lines(log);
            assert!(lines < TOGGLES, "{lines} lines in the kernel's log");
        },
    );
}
