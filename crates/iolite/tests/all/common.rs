//! Pools, and pipes with both ends here.

use exos_iolite::{Aggregate, Options, Pool, Read, Receiver, Sender, Shape, Slice, Trust};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

pub const SMALL: Shape = Shape {
    buffer_len: 4096,
    buffers: 8,
    share: 4,
};

pub fn pool(shape: Shape) -> Pool {
    Pool::new("exos-test", shape).expect("memory")
}

/// Bytes of a pool, all alike.
pub fn bytes(pool: &Pool, byte: u8, len: usize) -> Slice {
    let mut draft = pool.draft(len).expect("a buffer");
    draft.bytes_mut().fill(byte);
    draft.freeze()
}

pub fn sockets() -> (OwnedFd, OwnedFd) {
    let (one, other) = UnixStream::pair().expect("descriptors");
    (one.into(), other.into())
}

pub fn pipe(pool: &Pool, options: Options, trust: Trust) -> (Sender, Receiver) {
    let (one, other) = sockets();
    let sender = Sender::connect(one, pool, options).expect("a pipe");
    (sender, Receiver::accept(other, trust).expect("a pipe"))
}

/// What is there to be read, at most this much.
pub fn read(receiver: &mut Receiver, at_most: usize) -> Aggregate {
    match receiver.read(at_most).expect("a good producer") {
        Read::Data(data) => data,
        other => panic!("{other:?}"),
    }
}

/// Whether an end would wake a program that polls it.
pub fn is_readable(end: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(end, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).expect("it can be polled") > 0
}
