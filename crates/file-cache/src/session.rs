//! What the service knows of a program: its files, and what it is still to be given. Nothing of it is left when the program ends, however it does.

use crate::extents::Extents;
use crate::limits::{
    ANSWER_LEN_MAX, BUFFER_LEN, PASSED_MAX, REQUESTS_AT_ONCE, SHARE_PATIENCE, SLOTS,
};
use crate::open_file::{Audience, OpenFile};
use crate::parts::{COMMON, Limits, Part};
use crate::passed::{Closer, Passed};
use crate::protocol::{Answer, MESSAGE_LEN, Request, Statistics, Status, bytes, words};
use crate::users::{Owner, Place};
use exos_iolite::{Aggregate, Options, Reserved, Sender, Share, Slice};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::collections::HashMap;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

/// The program has ended, or does not do as agreed: nothing more is done for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    Gone,
    Fault,
}

/// A read for whose answer the program's share has no room, and how long that is waited for.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    file: u32,
    offset: u64,
    len: u64,
    /// With room for this number of buffers it is tried again.
    buffers: u32,
    until: Instant,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Session {
    pub owner: Owner,
    /// Whose it wants to be.
    pub renamed: Option<Owner>,
    sender: Sender,
    /// Closed behind the sender's copy of it.
    socket: Passed,
    closer: Rc<Closer>,
    share: Share,
    /// It has its place among the connections of its user as long as this is used: by it, or a member of the pool that outlives it.
    place: Share,
    user_limit: u32,
    files_max: usize,
    /// Whose policy replaces what it brings in.
    part: Part,
    /// It has said whose share it wants.
    is_named: bool,
    /// It has read something, so its share is settled.
    has_read: bool,
    files: HashMap<u32, OpenFile>,
    /// Answers for which there is no room in the pipe yet. As long as there are some, nothing more is read from the program.
    out: Aggregate,
    /// What these have counts in the program's share.
    reserved: Vec<Reserved>,
    /// Nothing more is read from the program before this is answered. It has no bytes meanwhile, which would be in no share.
    waiting: Option<Waiting>,
    is_armed: bool,
}

impl Session {
    /// Makes the program at the other end a consumer of the cache's pool.
    pub fn new(
        socket: Passed,
        closer: &Rc<Closer>,
        extents: &Extents,
        owner: Owner,
        Place {
            share,
            place,
            user_limit,
            files_max,
        }: Place,
    ) -> exos_iolite::Result<Self> {
        let beside = socket.as_fd().try_clone_to_owned();
        let beside = beside.map_err(|e| exos_iolite::Error::System("no descriptor is left", e))?;
        let options = Options {
            slots: SLOTS,
            // Those that it lets in have a share each, which is for programs of one user.
            spares: u32::from(extents.audience == Audience::User),
            pools: 1,
        };
        let mut sender = Sender::connect(beside, extents.pool(), options)?;
        sender.count_in(place.clone());
        Ok(Self {
            owner,
            renamed: None,
            sender,
            socket,
            closer: Rc::clone(closer),
            share,
            place,
            user_limit,
            files_max,
            part: COMMON,
            is_named: false,
            has_read: false,
            files: HashMap::new(),
            out: Aggregate::new(),
            reserved: Vec::new(),
            waiting: None,
            is_armed: false,
        })
    }

    /// Has the share of another name.
    pub fn join(&mut self, owner: Owner, place: Place) {
        self.sender.count_in(place.place.clone());
        (self.owner, self.share, self.place) = (owner, place.share, place.place);
    }

    /// What to wait for: a request, where nothing is to be answered, and room in the pipe where there was none; and the end of both in any case.
    pub fn waits_for(&self) -> [PollFd<'_>; 2] {
        let may_ask = self.out.is_empty() && self.waiting.is_none();
        let when = |is_so| match is_so {
            true => PollFlags::IN,
            false => PollFlags::empty(),
        };
        [
            PollFd::new(&self.socket, when(may_ask)),
            PollFd::new(&self.sender, when(self.is_armed)),
        ]
    }

    /// Before waiting: whether there is room in the pipe for answers already.
    pub fn arm(&mut self) -> bool {
        self.disarm();
        self.is_armed = !self.out.is_empty();
        self.is_armed && self.sender.arm().unwrap_or(true)
    }

    fn disarm(&mut self) {
        if std::mem::take(&mut self.is_armed) {
            self.sender.woken();
        }
    }

    /// Answers what there is to answer, as far as there is room.
    pub fn turn(&mut self, extents: &mut Extents) -> Result<(), Over> {
        self.disarm();
        for _ in 0..REQUESTS_AT_ONCE {
            self.flush()?;
            if !self.out.is_empty() || self.waiting.is_some() {
                return Ok(());
            }
            let Some((request, descriptor)) = self.request()? else {
                return Ok(());
            };
            self.answer(request, descriptor, extents)?;
            if self.closer.has_too_many(self.owner.user) {
                return Err(Over::Fault);
            }
            if self.renamed.is_some() {
                // Nothing is read before it has its share.
                return Ok(());
            }
        }
        self.flush()
    }

    /// Whether it waits for room in its share: nothing tells when there is some, so it is to be [looked at](Self::look) from time to time.
    pub fn is_stuck(&self) -> bool {
        self.waiting.is_some()
    }

    /// Answers the read that waits for room in the program's share, if there is some now, or says that there is none. Looks what those that have
    /// the share have let go of, where that is this session's turn.
    pub fn look(&mut self, extents: &mut Extents, is_its_turn: bool) -> Result<(), Over> {
        let Some(waiting) = self.waiting.take() else {
            return Ok(());
        };
        let is_last = Instant::now() >= waiting.until;
        if is_its_turn || is_last {
            self.sender.look_at_share(waiting.buffers);
        }
        if self.share.left() >= waiting.buffers || is_last {
            self.give(waiting, extents)?;
        } else {
            self.waiting = Some(waiting);
        }
        if is_last && self.waiting.take().is_some() {
            extents.statistics.over_share += 1;
            self.say(Status::Share, waiting.file, Aggregate::new());
        }
        self.flush()
    }

    /// Answers a read, where there is room in the program's share: it waits where there is none.
    fn give(&mut self, read: Waiting, extents: &mut Extents) -> Result<(), Over> {
        let (mut status, mut bytes) = self.read(read.file, read.offset, read.len, extents)?;
        let mut reserved = self.sender.reserve(&bytes);
        if read.buffers == 0 && matches!(reserved, Err(exos_iolite::Error::ShareExceeded { .. })) {
            self.sender.look_at_share(bytes.slices().len() as u32);
            reserved = self.sender.reserve(&bytes);
        }
        match reserved {
            Ok(reserved) => self.reserved.extend(reserved),
            Err(exos_iolite::Error::ShareExceeded { .. }) => {
                let buffers = bytes.slices().len() as u32;
                self.waiting = Some(Waiting { buffers, ..read });
                return Ok(());
            }
            Err(exos_iolite::Error::PeerGone) => return Err(Over::Gone),
            // It can be no member of the pool now: no place or no descriptor is left.
            Err(exos_iolite::Error::Members | exos_iolite::Error::System(..)) => {
                (status, bytes) = (Status::TooMany, Aggregate::new());
            }
            Err(_) => return Err(Over::Fault),
        }
        extents.statistics.changed += u64::from(status == Status::Changed);
        extents.statistics.failed += u64::from(status == Status::Unreadable);
        extents.statistics.passed_bytes += bytes.len() as u64;
        self.say(status, read.file, bytes);
        Ok(())
    }

    /// Writes what there is room for.
    fn flush(&mut self) -> Result<(), Over> {
        while !self.out.is_empty() {
            match self.sender.write(&mut self.out) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(exos_iolite::Error::PeerGone) => return Err(Over::Gone),
                Err(_) => return Err(Over::Fault),
            }
        }
        self.reserved.clear();
        Ok(())
    }

    /// The next request, if there is one, and the descriptor that came with it.
    fn request(&self) -> Result<Option<(Request, Option<Passed>)>, Over> {
        let mut message = [0; MESSAGE_LEN];
        // Those for which there is no room the kernel closes here and now.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut message)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = match recvmsg(&self.socket, &mut parts, &mut ancillary, flags) {
            Ok(received) => received,
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(_) => return Err(Over::Gone),
        };
        let descriptors = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let mut descriptors: Vec<OwnedFd> = descriptors.flatten().collect();
        if descriptors.len() > 1 {
            let user = Some(self.owner.user);
            for fd in descriptors {
                self.closer.close(user, fd);
            }
            return Err(Over::Fault);
        }
        let passed = |fd| Passed::new(fd, Some(self.owner.user), &self.closer);
        let descriptor = descriptors.pop().map(passed);
        let cut = ReturnFlags::CTRUNC | ReturnFlags::TRUNC;
        match received.bytes {
            0 => Err(Over::Gone),
            MESSAGE_LEN if !received.flags.intersects(cut) => {
                let request = Request::parse(words(&message)).ok_or(Over::Fault)?;
                match matches!(request, Request::Open { .. }) == descriptor.is_some() {
                    true => Ok(Some((request, descriptor))),
                    false => Err(Over::Fault),
                }
            }
            _ => Err(Over::Fault),
        }
    }

    fn answer(
        &mut self,
        request: Request,
        descriptor: Option<Passed>,
        extents: &mut Extents,
    ) -> Result<(), Over> {
        match request {
            Request::Open { file } => {
                let status = self.open(file, descriptor.ok_or(Over::Fault)?, extents.audience);
                let unkept = [
                    Status::Unsettled,
                    Status::Writing,
                    Status::Unsuitable,
                    Status::Private,
                ];
                extents.statistics.refused += u64::from(unkept.contains(&status));
                self.say(status, file, Aggregate::new());
            }
            Request::Read { file, offset, len } => {
                self.has_read = true;
                let until = Instant::now() + SHARE_PATIENCE;
                self.give(
                    Waiting {
                        file,
                        offset,
                        len,
                        buffers: 0,
                        until,
                    },
                    extents,
                )?;
            }
            Request::Close { file } => {
                self.files.remove(&file);
            }
            Request::Statistics => {
                let bytes = Statistics {
                    share: u64::from(self.share.limit()) * BUFFER_LEN as u64,
                    share_held: u64::from(self.share.count()) * BUFFER_LEN as u64,
                    ..extents.statistics
                };
                let bytes = bytes.to_bytes();
                let slices = bytes.chunks(exos_iolite::limits::INLINE_LEN_MAX);
                let slices = slices.filter_map(Slice::of_few);
                self.say(Status::Done, 0, slices.collect());
            }
            Request::Share { name } => {
                if self.has_read || self.part != COMMON || self.is_named {
                    return Err(Over::Fault);
                }
                self.is_named = true;
                self.renamed = Some(self.owner.named(name));
                self.say(Status::Done, 0, Aggregate::new());
            }
            Request::Policy { policy } => {
                if self.has_read || self.part != COMMON {
                    return Err(Over::Fault);
                }
                let bytes = |buffers| u64::from(buffers) * BUFFER_LEN as u64;
                let limits = Limits {
                    program: bytes(self.share.limit()),
                    user: bytes(self.user_limit),
                };
                self.part = extents.parts.join(self.owner, policy.policy(), limits);
                self.say(Status::Done, 0, Aggregate::new());
            }
        }
        Ok(())
    }

    fn open(&mut self, file: u32, descriptor: Passed, audience: Audience) -> Status {
        if self.files.len() >= self.files_max && !self.files.contains_key(&file) {
            return Status::TooMany;
        }
        match OpenFile::new(descriptor, audience) {
            Ok(open) => {
                self.files.insert(file, open);
                Status::Done
            }
            Err(status) => status,
        }
    }

    /// As many extents as fit into an answer. What goes wrong behind the first ends it, and is told when it is asked for by itself.
    fn read(
        &mut self,
        file: u32,
        offset: u64,
        len: u64,
        extents: &mut Extents,
    ) -> Result<(Status, Aggregate), Over> {
        let file = self.files.get_mut(&file).ok_or(Over::Fault)?;
        let len = len.min(ANSWER_LEN_MAX as u64);
        let mut bytes = Aggregate::new();
        loop {
            let done = bytes.len() as u64;
            let at = offset.saturating_add(done);
            match extents.read(self.part, file, at, len - done) {
                Ok(more) if more.is_empty() => return Ok((Status::Done, bytes)),
                Ok(more) => bytes.concatenate(more),
                Err(status) if bytes.is_empty() => return Ok((status, bytes)),
                Err(_) => return Ok((Status::Done, bytes)),
            }
        }
    }

    fn say(&mut self, status: Status, file: u32, content: Aggregate) {
        let file_len = self.files.get(&file).map_or(0, |open| open.version.len);
        let len = content.len() as u64;
        let answer = Answer {
            status,
            file,
            len,
            file_len,
        };
        let head = Slice::of_few(&bytes(answer.words()));
        self.out.append(head.expect("it is as long as fits"));
        self.out.concatenate(content);
    }

    /// The program has ended: what was not taken is nobody's.
    pub fn end(self, extents: &mut Extents) {
        extents.leave(self.part);
        self.sender.give_up();
    }
}
