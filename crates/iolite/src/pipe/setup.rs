//! What passes over the Unix socket beside a pipe: its memory and the ends of its bells, once, and each pool before the first
//! descriptor that refers to it.
//!
//! A message is four words of 32 bits (kind, and three numbers) with descriptors.

use crate::error::{Error, Refused as _, Result};
use crate::limits::{POOL_LEN_MAX, SLOTS_MAX};
use crate::pool::Invitation;
use crate::pool::member::MemberPool;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Of pipes whose ends publish what they wait for.
const KIND_PIPE: u32 = 0x696f_0003;
/// Of those whose ends only said that they slept.
const KIND_OLD_PIPE: u32 = 0x696f_0001;
const KIND_POOL: u32 = 0x696f_0002;

/// Invitations that may be passed on, of each pool and pipe: beside its own they are what one message carries.
pub(crate) const SPARES_MAX: u32 = 8;

/// Descriptors of one message, at most.
const DESCRIPTORS_MAX: usize = 3 + 2 * SPARES_MAX as usize;
const WORDS: usize = 4;

/// What makes a process the consumer of a pipe.
#[derive(Debug)]
pub(crate) struct Consumed {
    pub ring: OwnedFd,
    pub slots: usize,
    /// Wakes us.
    pub sleeper: OwnedFd,
    /// Wakes the producer.
    pub waker: OwnedFd,
}

fn send(socket: &OwnedFd, words: [u32; WORDS], fds: &[BorrowedFd<'_>]) -> Result<()> {
    let mut bytes = [0; 4 * WORDS];
    for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *to = word.to_ne_bytes();
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let is_room = ancillary.push(SendAncillaryMessage::ScmRights(fds));
    assert!(
        is_room,
        "a message has {DESCRIPTORS_MAX} descriptors at most"
    );
    // A peer that reads none of them may not make us wait.
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, flags);
    match sent {
        Ok(len) if len == bytes.len() => Ok(()),
        Ok(_) => Err(Error::PeerFault("it leaves no room for a message")),
        Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => Err(Error::PeerGone),
        Err(error) => Err(Error::System("cannot pass descriptors", error.into())),
    }
}

fn receive(socket: &OwnedFd, flags: RecvFlags) -> Result<([u32; WORDS], Vec<OwnedFd>)> {
    let mut bytes = [0; 4 * WORDS];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(socket, &mut parts, &mut ancillary, flags);
    let received = received.refused("no descriptors came")?;
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds: Vec<OwnedFd> = fds.flatten().collect();
    if received.bytes == 0 {
        return Err(Error::PeerGone);
    }
    if received.bytes != bytes.len() || received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Error::PeerFault("a message is of another length"));
    }
    let (words, _) = bytes.as_chunks::<4>();
    let words = std::array::from_fn(|n| u32::from_ne_bytes(words[n]));
    Ok((words, fds))
}

/// Makes the process at the other end the consumer of a pipe.
pub(crate) fn send_pipe(socket: &OwnedFd, consumed: &Consumed) -> Result<()> {
    let fds = [&consumed.ring, &consumed.sleeper, &consumed.waker].map(AsFd::as_fd);
    send(socket, [KIND_PIPE, consumed.slots as u32, 0, 0], &fds)
}

/// Waits until the process at the other end makes this one a consumer.
pub(crate) fn receive_pipe(socket: &OwnedFd) -> Result<Consumed> {
    let ([kind, slots, ..], fds) = receive(socket, RecvFlags::empty())?;
    let slots = slots as usize;
    let Ok([ring, sleeper, waker]) = <[OwnedFd; 3]>::try_from(fds) else {
        return Err(Error::PeerFault("a pipe has three descriptors"));
    };
    if kind == KIND_OLD_PIPE {
        return Err(Error::PeerFault(
            "its pipes are those of an earlier version: build both programs from one",
        ));
    }
    if kind != KIND_PIPE || !slots.is_power_of_two() || slots > SLOTS_MAX {
        return Err(Error::PeerFault(
            "it begins with something other than a pipe",
        ));
    }
    Ok(Consumed {
        ring,
        slots,
        sleeper,
        waker,
    })
}

/// Makes the process at the other end a member of a pool, and lets it have others be.
pub(crate) fn send_pool(
    socket: &OwnedFd,
    number: usize,
    invitation: &Invitation,
    spare: &[Invitation],
) -> Result<()> {
    let own = [&invitation.pool, &invitation.column, &invitation.life];
    let more = spare.iter().flat_map(|spare| [&spare.column, &spare.life]);
    let fds: Vec<BorrowedFd<'_>> = own.into_iter().chain(more).map(AsFd::as_fd).collect();
    send(socket, [KIND_POOL, number as u32, 0, 0], &fds)
}

/// The pool of this number, of which the process at the other end has told before.
pub(crate) fn receive_pool(
    socket: &OwnedFd,
    number: usize,
    takes_spares: bool,
) -> Result<MemberPool> {
    let ([kind, told, ..], fds) = receive(socket, RecvFlags::DONTWAIT)?;
    if (kind, told) != (KIND_POOL, number as u32) {
        return Err(Error::PeerFault(
            "it sends from a pool of which it did not tell",
        ));
    }
    if !takes_spares && fds.len() > 3 {
        return Err(Error::PeerFault("it passes invitations that are not used"));
    }
    let mut fds = fds.into_iter();
    let mut next = || {
        fds.next()
            .ok_or(Error::PeerFault("a pool has three descriptors"))
    };
    let (pool, column, life) = (next()?, next()?, next()?);
    let mut spare = Vec::new();
    while let (Ok(column), Ok(life)) = (next(), next()) {
        let pool = pool.try_clone().refused("no descriptor is left")?;
        spare.push(Invitation { pool, column, life });
    }
    let invitation = Invitation { pool, column, life };
    let joined = MemberPool::join(invitation, POOL_LEN_MAX)?;
    joined.spare.replace(spare);
    Ok(joined)
}
