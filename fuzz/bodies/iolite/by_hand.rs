//! Ends of pipes that are made by hand, without the crate: they write whatever they like.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Kinds of messages over the socket of a pipe.
pub const KIND_PIPE: u32 = 0x696f_0003;
pub const KIND_POOL: u32 = 0x696f_0002;
/// Of a ring of 4 slots, and of pools and columns of 8 buffers of 4,096 bytes.
pub const RING_LEN: u64 = 4096;
pub const POOL_LEN: u64 = 9 * 4096;
pub const COLUMN_LEN: u64 = 4096;
pub const MAGIC: u64 = u64::from_be_bytes(*b"iolite\0\x01");
/// Words of the ring.
pub const HEAD: u64 = 16;
pub const SLOTS: u64 = 64;
/// Kinds of descriptors in its slots.
pub const BUFFER: u64 = 1 << 56;
pub const INLINE: u64 = 2 << 56;

/// Sends a message over the socket of a pipe; says whether there was room.
pub fn send(socket: &OwnedFd, words: [u32; 4], fds: &[BorrowedFd<'_>]) -> bool {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, flags).is_ok()
}

/// The descriptors of the next message that has come; none where there is none.
pub fn receive(socket: &OwnedFd) -> Vec<OwnedFd> {
    let (mut bytes, mut fds) = ([0; 16], Vec::new());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let _ = recvmsg(socket, &mut parts, &mut ancillary, flags);
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            fds.extend(passed);
        }
    }
    fds
}

/// A memory file of this length.
pub fn memory(len: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
    let file = memfd_create("exos-test", flags).expect("memory");
    rustix::fs::ftruncate(&file, len).expect("room");
    fcntl_add_seals(&file, seals).expect("new");
    file
}

/// One whose length stays.
pub fn sealed(len: u64) -> OwnedFd {
    memory(len, SealFlags::SHRINK | SealFlags::GROW)
}

/// Writes a word of a memory file.
pub fn set(file: &OwnedFd, word: u64, value: u64) {
    rustix::io::pwrite(file, &value.to_ne_bytes(), 8 * word).expect("not sealed against it");
}

/// Reads one.
pub fn get(file: &OwnedFd, word: u64) -> u64 {
    let mut value = [0; 8];
    rustix::io::pread(file, &mut value, 8 * word).expect("memory");
    u64::from_ne_bytes(value)
}

/// A pipe of the kernel's.
pub fn bells() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe().expect("descriptors")
}

/// A pool as it is to be, of 8 buffers of 4,096 bytes.
pub fn good_pool() -> OwnedFd {
    let file = sealed(POOL_LEN);
    for (word, value) in [MAGIC, 4096, 8, 4].into_iter().enumerate() {
        set(&file, word as u64, value);
    }
    (8..16).for_each(|word| set(&file, word, 1));
    file
}

/// Writes a descriptor into the slot of a position.
pub fn put(ring: &OwnedFd, position: u64, words: [u64; 3]) {
    let slot = SLOTS + 8 * (position % 4);
    for (n, word) in words.into_iter().enumerate() {
        set(ring, slot + 1 + n as u64, word);
    }
    set(ring, slot, position.wrapping_add(1));
}
