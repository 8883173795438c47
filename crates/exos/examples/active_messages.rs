//! A matrix that others fill, in the kernel: each message to UDP port 4000 names what is done with it (an active message), and the program
//! sleeps until all tiles are there.
//!
//! | a message | answer | |
//! |---|---|---|
//! | 0, lock 1, 0 2, owner 8 | owner before 8 | takes the lock if that is 0 (compare and swap) |
//! | 1, lock 1, 0 2, owner 8 | owner before 8 | gives the lock back if it is the owner's |
//! | 2, 0 1, row 1, column 1, numbers 16 × 8 | none | the numbers land in the tile there, one row of the matrix after the other (vectoring) |
//! | 3, name | its word 8 | fetches from a table |
//!
//! All else is the program's: a name or a tile that there is not, too few bytes. Nothing of those has been carried out.
//!
//! `cargo build -p exos --example active_messages`, then `target/debug/examples/active_messages`, as any user whom `exos daemon` allows a
//! port; without a daemon `sudo target/debug/examples/active_messages eth0 192.0.2.7/24` with a free address of the interface's network. On
//! a TAP device (`tap:NAME`) the program does by itself what the kernel does elsewhere.

use std::sync::atomic::Ordering;

use exos::signals::Signals;
use exos::{Addresses, Daemon, Downloaded, Duration, Exos, Interface, Role, Tap, ash};

type Error = Box<dyn std::error::Error>;

const PORT: u16 = 4000;
/// Tiles of the matrix: four in a row, four in a column, each of 4 x 4 numbers.
const TILES: u64 = 16;

const HANDLER: &str = "
    handler matrix {
        words locks[8];
        words arrived[1];
        rows lines[64] of 32;       // 4 x 4 tiles, each of four of them
        table names[64] of 32;

        need 2;
        if u8(0) <= 1 {
            need 12;
            lock = &locks[u8(1)];
            if u8(0) == 0 {
                before = compare_swap(lock, 0, be64(4));
            } else {
                before = compare_swap(lock, be64(4), 0);
            }
            reply 8 { be64(0) = before; }
        } else if u8(0) == 2 {
            need 132;
            if u8(2) >= 4 || u8(3) >= 4 {
                give up;
            }
            for i in 0..4 {
                line = &lines[(u8(2) * 4 + i) * 4 + u8(3)];
                take(line, 4 + i * 32, 32);
            }
            count = &arrived[0];
            add(count, 1);
            done;
        } else if u8(0) == 3 {
            word = find(names, 1, length - 1);
            reply 8 { be64(0) = word; }
        } else {
            give up;
        }
    }";

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let mut exos = match (arguments.next(), arguments.next()) {
        (None, None) => Exos::attach(Daemon::new(Role::Connect(Vec::new())))?,
        (Some(interface), Some(address)) => {
            let ours = Addresses::new([address.parse()?])?;
            match interface.strip_prefix("tap:") {
                Some(name) => Exos::attach(Tap {
                    name: name.into(),
                    addresses: ours,
                })?,
                None => Exos::attach(Interface::new(interface, ours))?,
            }
        }
        _ => return Err("active_messages [INTERFACE|tap:NAME ADDRESS/LENGTH]".into()),
    };
    let signals = Signals::catch()?;
    let matrix = download(&mut exos)?;
    while !signals.stop_requested() {
        if arrived(&matrix) >= TILES {
            println!(
                "the sum of all numbers is {}",
                numbers(&matrix).sum::<u64>()
            );
        }
        exos.receive();
        exos.send()?;
        exos.wait(Some(exos.now() + Duration::from_secs(1)), &[])?;
    }
    Ok(())
}

/// Has done what messages say, from now on, by the kernel where it can; `version` is the name of a word.
pub fn download(exos: &mut Exos) -> Result<Downloaded, Error> {
    let matrix = exos.download(ash::parse(HANDLER)?, PORT)?;
    let names = matrix.memory().table("names").ok_or("no table")?;
    names.insert(b"version", 1)?;
    Ok(matrix)
}

/// Tiles that have arrived, those that came twice counted twice.
pub fn arrived(matrix: &Downloaded) -> u64 {
    let words = matrix.memory().words("arrived").unwrap_or_default();
    words.iter().map(|word| word.load(Ordering::Acquire)).sum()
}

/// The numbers of the matrix, row by row.
pub fn numbers(matrix: &Downloaded) -> impl Iterator<Item = u64> {
    let memory = matrix.memory();
    let lines = (0..).map_while(move |line| memory.row("lines", line));
    lines
        .flatten()
        .map(|word| u64::from_be(word.load(Ordering::Relaxed)))
}
