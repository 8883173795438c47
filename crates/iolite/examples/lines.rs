//! Two processes and a pipe: one writes lines, the other counts them and looks for a word, where they are.
//!
//! `cargo run --release -p exos-iolite --example lines` starts itself once more as the one that counts; the socket by which the pipe is
//! made is that one's standard input.

use exos_iolite::{Error, Options, Pool, Read, Receiver, Result, Sender, Shape, Trust, Wait};
use std::os::fd::{AsFd as _, OwnedFd};

/// What is looked for.
pub const WORD: &[u8] = b"999";

/// Writes lines with the numbers up to this one.
pub fn write_lines(socket: OwnedFd, count: u32) -> Result<()> {
    let pool = Pool::new("lines", Shape::of(64))?;
    let options = Options {
        slots: 16,
        spares: 0,
        pools: 16,
    };
    let mut sender = Sender::connect(socket, &pool, options)?;
    let mut draft = pool.draft(pool.shape().buffer_len as usize)?;
    let mut used = 0;
    for number in 0..count {
        let line = format!("line {number}\n");
        if draft.bytes_mut().len() - used < line.len() {
            sender.write_all(&mut draft.freeze_first(used).into(), Wait::Sleep)?;
            draft = pool.draft(pool.shape().buffer_len as usize)?;
            used = 0;
        }
        draft.bytes_mut()[used..used + line.len()].copy_from_slice(line.as_bytes());
        used += line.len();
    }
    sender.write_all(&mut draft.freeze_first(used).into(), Wait::Sleep)?;
    Ok(())
}

/// How many lines there are, and how many that have the word.
pub fn count_lines(socket: OwnedFd) -> Result<(u32, u32)> {
    // The producer is believed not to change what it has sent: nothing is copied but a block at a time, to look at.
    let mut receiver = Receiver::accept(socket, Trust::Trusted)?;
    let (mut lines, mut found, mut line) = (0, 0, Vec::new());
    loop {
        match receiver.read_wait(usize::MAX, Wait::Sleep)? {
            Read::Data(data) => data.for_each_block(|mut block| {
                while let Some(end) = block.iter().position(|byte| *byte == b'\n') {
                    line.extend_from_slice(&block[..end]);
                    lines += 1;
                    found += u32::from(line.windows(WORD.len()).any(|part| part == WORD));
                    line.clear();
                    block = &block[end + 1..];
                }
                line.extend_from_slice(block);
            }),
            Read::End => return Ok((lines, found)),
            Read::Nothing => {}
        }
    }
}

#[allow(dead_code, reason = "tests have only the two functions")]
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).is_some() {
        let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
        let (lines, found) = count_lines(socket)?;
        println!("{lines} lines, {found} of them with 999");
        return Ok(());
    }
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    let this = std::env::current_exe()?;
    let mut counting = std::process::Command::new(this);
    counting.arg("count").stdin(OwnedFd::from(theirs));
    let mut counting = counting.spawn()?;
    match write_lines(ours.into(), 1_000_000) {
        Ok(()) | Err(Error::PeerGone) => {}
        Err(error) => return Err(error.into()),
    }
    counting.wait()?;
    Ok(())
}
