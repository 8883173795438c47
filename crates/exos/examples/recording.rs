//! A stream of masked numbers that comes in messages to UDP port 4000 and is recorded in the kernel: unmasked, summed and hashed while it is put
//! into memory, by pipes whose registers go on with the next message. The program says each second how far it is.
//!
//! | a message | answer | |
//! |---|---|---|
//! | block 4, numbers 8 × 1 to 128 | block 4, hash 8 | the next block: the hash is of all numbers up to it |
//! | one that has come already | block 4, hash 8 | the hash is of all that have come |
//!
//! One that comes too early is the program's. The blocks of a stream come one after the other to one processor, as a network card leads one
//! sender's messages. Of one that two processors have at once one records it; the other answers nothing, so that its sender sends it again.
//!
//! `cargo build -p exos --example recording`, then `sudo target/debug/examples/recording eth0 192.0.2.7/24` with a free address of the
//! interface's network.

use std::sync::atomic::Ordering;

use exos::signals::Signals;
use exos::{Addresses, Downloaded, Duration, Exos, Interface, ash};

type Error = Box<dyn std::error::Error>;

const PORT: u16 = 4000;
/// What numbers are masked with.
pub const KEY: u64 = 0x0123_4567_89ab_cdef;

/// What the kernel does with a message.
pub const HANDLER: &str = "
    handler recording {
        words state[5];             // the next block, the key, the sum and the hash of what has come, the next that nobody records
        rows blocks[256] of 1024;

        need 12;
        next = &state[0];
        key = &state[1];
        sum = &state[2];
        hash = &state[3];
        free = &state[4];
        if *key == 0 {
            give up;                // the program has not said it yet
        }
        if be32(0) < *next {
            reply 12 { be64(4) = *hash; }
        }
        if be32(0) > *next {
            give up;
        }
        block = &blocks[be32(0) % 256];
        s, h = take(block, 4, length - 4) through xor(8, *key), sum(8, *sum), hash(8, *hash);
        was = compare_swap(free, be32(0), be32(0) + 1);
        if was != be32(0) {
            done;                   // another processor records it, from the same sum and hash
        }
        *sum = s;
        *hash = h;
        add(next, 1);
        reply 12 { be64(4) = h; }
    }";

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let (Some(interface), Some(address)) = (arguments.next(), arguments.next()) else {
        return Err("recording INTERFACE ADDRESS/LENGTH".into());
    };
    let ours = Addresses::new([address.parse()?])?;
    let mut exos = Exos::attach(Interface::new(interface, ours))?;
    let signals = Signals::catch()?;
    let recording = download(&mut exos)?;
    let mut next = exos.now();
    while !signals.stop_requested() {
        if exos.now() >= next {
            let [blocks, sum, hash] = state(&recording);
            println!("{blocks} blocks, the sum of all numbers is {sum}, their hash {hash:016x}");
            next = exos.now() + Duration::from_secs(1);
        }
        exos.receive();
        exos.send()?;
        exos.wait(Some(next), &[])?;
    }
    Ok(())
}

/// Has blocks recorded from now on, by the kernel where it can.
pub fn download(exos: &mut Exos) -> Result<Downloaded, Error> {
    let recording = exos.download(ash::parse(HANDLER)?, PORT)?;
    let words = recording.memory().words("state").ok_or("no state")?;
    words[1].store(KEY, Ordering::Release);
    Ok(recording)
}

/// Blocks that have come, the sum of their numbers, and the hash.
pub fn state(recording: &Downloaded) -> [u64; 3] {
    let words = recording.memory().words("state").unwrap_or_default();
    [0, 2, 3].map(|word| {
        words
            .get(word)
            .map_or(0, |word| word.load(Ordering::Acquire))
    })
}
