//! Batches frames at once through a daemon's checks: the daemon's program, run by us, in our time.
//!
//! A link that a daemon lends sends by its ring into a virtual interface, at whose other end each frame is checked and sent on:
//! two ways through the kernel, each with a socket buffer and a round of soft interrupts. The daemon's program for this
//! link (`exos_filter::gate::batch`) does the same check on a copy of the frame that it makes itself, and sends that by the
//! interface at once. It takes frames from memory that it shares with us, as the program of [`super::live`] does; what it
//! cannot decide it gives back, and that goes by the ring.
//!
//! From the same memory another of the daemon's programs sends live frames (`exos_filter::gate::live`), where the daemon lends it:
//! dearer by the call and cheaper by the frame.
//!
//! Nothing of this memory needs to be believed by the daemon, nor by us: words that are wrong make frames be lost that we
//! would have sent.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use exos_filter::gate::CALL_LEN;
use exos_filter::transmit::{
    BEGINNING_LEN, DESCRIPTORS, END, GIVEN_BACK, LOST, QUEUE_LEN, QUEUE_WORDS, REFUSED, RETURNED,
    TAKEN, descriptor, frame_len_max,
};
use exos_host::bpf::Prog;

use super::live;
use super::losses::Losses;
use super::socket::Descriptor;
use super::umem::Umem;
use crate::Error;
use crate::limits::LIVE_RECHECK_INTERVAL;
use crate::mapping::Mapping;

/// Where the EtherType of a frame is.
const ETHERTYPE: std::ops::Range<usize> = 12..14;

/// What a daemon lends beside a link so that it can send without the ring.
#[derive(Debug)]
pub struct CheckedParts {
    /// The program.
    pub program: OwnedFd,
    /// The array that it takes frames from.
    pub frames: OwnedFd,
    /// The array of the queue.
    pub queue: OwnedFd,
    /// The array by which the program goes on to the next frame. It lasts as long as somebody has it.
    pub again: OwnedFd,
    /// How many frames the array has places for: a power of two, not more than the queue has.
    pub places: u32,
    /// The interface that frames are said to have come from: without it another of the daemon's programs would look at them once
    /// more.
    pub interface: u32,
    /// What live frames are sent by, where they can be.
    pub live: Option<LiveParts>,
}

/// What a daemon lends so that live frames can be sent.
#[derive(Debug)]
pub struct LiveParts {
    /// The program.
    pub program: OwnedFd,
    /// What stands before each frame.
    pub metadata: Vec<u8>,
    /// A file that tells how many frames the interface behind the daemon has dropped.
    pub dropped: OwnedFd,
}

/// The way of many frames through the daemon's checks.
#[derive(Debug)]
pub(super) struct Checked {
    program: Prog,
    frames: Mapping,
    queue: Mapping,
    _again: OwnedFd,
    places: u32,
    interface: u32,
    chunk_size: u32,
    /// Frames handed over so far, as the program counts them.
    taken: u64,
    returned: u64,
    /// Until when it is not tried again.
    not_before: Option<Instant>,
    counters: Counters,
    live: Option<Live>,
}

/// The way of live frames.
#[derive(Debug)]
struct Live {
    program: Prog,
    /// What each frame of the kernel's begins as, behind this many bytes of metadata.
    bytes: Vec<u8>,
    metadata_len: usize,
    losses: Losses,
    /// Until when it is not tried again.
    not_before: Option<Instant>,
    counters: live::Counters,
}

/// What happened, by name.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    frames: u64,
    calls: u64,
    returned: u64,
    failed: u64,
}

impl Checked {
    /// Over what the daemon lends, for chunks of this many bytes.
    ///
    /// # Errors
    ///
    /// It does not fit together.
    pub(super) fn over(parts: CheckedParts, chunk_size: u32) -> Result<Self, Error> {
        let places = parts.places;
        if !places.is_power_of_two() || places > QUEUE_LEN {
            return Err(Error::new(format!(
                "the daemon offers a way to send that cannot be: for {places} frames"
            ))
            .mend("use a daemon and a program of the same version of exos"));
        }
        let map = |fd: &OwnedFd, len: usize| {
            Mapping::shared(fd.as_fd(), len, 0).map_err(|source| {
                Error::io("what the daemon lends to send by cannot be mapped", source)
            })
        };
        // One that does not fit is not missed: there is the other way.
        let live = parts.live.and_then(|parts| Live::over(parts).ok());
        Ok(Self {
            live,
            frames: map(&parts.frames, places as usize * chunk_size as usize)?,
            queue: map(&parts.queue, 8 * QUEUE_WORDS)?,
            program: Prog::over(parts.program)?,
            _again: parts.again,
            places,
            interface: parts.interface,
            chunk_size,
            taken: 0,
            returned: 0,
            not_before: None,
            counters: Counters::default(),
        })
    }

    /// Whether all of these can leave this way now.
    pub(super) fn takes(&mut self, frames: &[Descriptor], now: Instant) -> bool {
        if self.not_before.is_some_and(|at| now < at) {
            return false;
        }
        self.not_before = None;
        let len_max = frame_len_max(self.chunk_size);
        let fits = |frame: &Descriptor| frame.options == 0 && frame.len <= len_max;
        frames.iter().all(fits)
    }

    /// Whether they can leave as live frames.
    pub(super) fn has_live(&self) -> bool {
        self.live.is_some()
    }

    /// Sends frames that it [takes](Self::takes), in order; how many of them are dealt with. Those that the daemon's program
    /// has given back are among them, and pushed to `returned`.
    pub(super) fn send(
        &mut self,
        as_live: bool,
        frames: &[Descriptor],
        umem: &Umem,
        returned: &mut Vec<Descriptor>,
    ) -> usize {
        let mut done = 0;
        while done < frames.len() {
            let most = self.places as usize;
            let as_live = as_live && self.live.as_mut().is_some_and(Live::is_usable);
            let (some, (taken, result)) = if as_live {
                let some = &frames[done..][..most.min(CALL_LEN as usize).min(frames.len() - done)];
                (some, self.call_live(some, umem))
            } else {
                let some = alike(&frames[done..], most, umem);
                (some, self.call(some, umem))
            };
            if self.word(RETURNED).load(Relaxed) != self.returned {
                self.take_back(&some[..taken], returned);
            }
            self.taken = self.taken.wrapping_add(taken as u64);
            done += taken;
            match result {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) if as_live => break,
                Err(_) => {
                    self.counters.failed += 1;
                    self.not_before = Some(Instant::now() + LIVE_RECHECK_INTERVAL);
                    break;
                }
            }
        }
        done
    }

    /// Copies frames into the memory, for the program to take.
    fn hand_over(&self, frames: &[Descriptor], umem: &Umem) {
        for (i, frame) in frames.iter().enumerate() {
            self.put(self.taken.wrapping_add(i as u64), *frame, umem);
        }
        let end = self.taken.wrapping_add(frames.len() as u64);
        self.word(END).store(end, Relaxed);
    }

    /// Hands over frames, at most [`CALL_LEN`], and has them sent as live ones; how many the program took.
    fn call_live(&mut self, frames: &[Descriptor], umem: &Umem) -> (usize, io::Result<()>) {
        self.hand_over(frames, umem);
        let count = frames.len() as u64;
        let live = self.live.as_mut().expect("it was lent");
        let mut result = live.run(count as u32);
        let taken = self.word(TAKEN).load(Relaxed).wrapping_sub(self.taken);
        let taken = taken.min(count);
        if taken == 0 && result.is_ok() {
            result = Err(io::Error::other("the daemon's program takes no frames"));
        }
        let live = self.live.as_mut().expect("it was lent");
        live.counters.frames += taken;
        if result
            .as_ref()
            .is_err_and(|e| e.kind() != io::ErrorKind::Interrupted)
        {
            live.counters.failed += 1;
            live.not_before = Some(Instant::now() + LIVE_RECHECK_INTERVAL);
        }
        (taken as usize, result)
    }

    /// Hands over frames of one type, and has the program run until it has taken them all; how many it took.
    fn call(&mut self, frames: &[Descriptor], umem: &Umem) -> (usize, io::Result<()>) {
        self.hand_over(frames, umem);
        let count = frames.len() as u64;
        let mut beginning = [0; BEGINNING_LEN];
        let first = umem.bytes(frames[0].address, frames[0].len);
        if let Some(kind) = first.and_then(|bytes| bytes.get(ETHERTYPE)) {
            beginning[ETHERTYPE].copy_from_slice(kind);
        }
        let mut taken = 0;
        let mut result = Ok(());
        while taken < count && result.is_ok() {
            // Each run takes as many as the kernel lets a program call itself; one where the array is empty.
            let runs = if taken == 0 {
                count.div_ceil(RUN_LEN)
            } else {
                count - taken
            };
            result = self
                .program
                .run_batch(&beginning, self.interface, runs as u32);
            self.counters.calls += 1;
            let now = self
                .word(TAKEN)
                .load(Relaxed)
                .wrapping_sub(self.taken)
                .min(count);
            if now == taken && result.is_ok() {
                result = Err(io::Error::other("the daemon's program takes no frames"));
            }
            taken = now;
        }
        self.counters.frames += taken;
        (taken as usize, result)
    }

    /// Copies a frame to the place of this number, and writes its descriptor.
    fn put(&self, number: u64, frame: Descriptor, umem: &Umem) {
        let place = number as u32 & (self.places - 1);
        let bytes = umem.bytes(frame.address, frame.len).unwrap_or_default();
        let to = self
            .frames
            .at::<u8>(place as usize * self.chunk_size as usize, bytes.len());
        // SAFETY: the place is within the mapping, which nobody refers to, and the frame is in memory of its own.
        unsafe { to.copy_from_nonoverlapping(std::ptr::NonNull::from(bytes).cast(), bytes.len()) };
        // One that is no frame is refused by the program, and counted there.
        let word = descriptor(self.chunk_size, place, 0, bytes.len() as u32).unwrap_or_default();
        let at = DESCRIPTORS + (number % u64::from(QUEUE_LEN)) as usize;
        self.word(at).store(word, Relaxed);
    }

    /// Finds those that the program has given back.
    fn take_back(&mut self, frames: &[Descriptor], returned: &mut Vec<Descriptor>) {
        self.returned = self.word(RETURNED).load(Relaxed);
        let before = returned.len();
        for (i, frame) in frames.iter().enumerate() {
            let number = self.taken.wrapping_add(i as u64);
            let at = DESCRIPTORS + (number % u64::from(QUEUE_LEN)) as usize;
            if self.word(at).load(Relaxed) & GIVEN_BACK != 0 {
                returned.push(*frame);
            }
        }
        self.counters.returned += (returned.len() - before) as u64;
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: within the mapping, aligned, and accessed as an atomic word by everybody.
        unsafe { self.queue.at::<AtomicU64>(8 * at, 1).as_ref() }
    }

    /// Frames so far that were allowed, and that the interface which they were to leave by did not take: of those that left as live
    /// ones by its own count, which others' are in, too.
    pub(super) fn lost(&self) -> u64 {
        let live = self.live.as_ref().map_or(0, |live| live.losses.count());
        self.word(LOST).load(Relaxed).wrapping_add(live)
    }

    /// What happened to live frames.
    pub(super) fn live_counters(&self) -> live::Counters {
        self.live
            .as_ref()
            .map(|live| live.counters)
            .unwrap_or_default()
    }

    /// Events by name, none where there is no such way.
    pub(super) fn counters(checked: Option<&Self>) -> [(&'static str, u64); 6] {
        let counters = checked.map_or_else(Counters::default, |checked| checked.counters);
        let word = |at| checked.map_or(0, |checked| checked.word(at).load(Relaxed));
        let (refused, lost) = (word(REFUSED), word(LOST));
        [
            ("tx_checked_frames", counters.frames),
            ("tx_checked_calls", counters.calls),
            ("tx_checked_returned", counters.returned),
            ("tx_checked_failed", counters.failed),
            ("tx_checked_refused", refused),
            ("tx_checked_lost", lost),
        ]
    }
}

impl Live {
    fn over(parts: LiveParts) -> Result<Self, Error> {
        let metadata_len = parts.metadata.len();
        Ok(Self {
            program: Prog::over(parts.program)?,
            bytes: [parts.metadata, vec![0; BEGINNING_LEN]].concat(),
            metadata_len,
            losses: Losses::in_file(parts.dropped.into()),
            not_before: None,
            counters: live::Counters::default(),
        })
    }

    fn is_usable(&mut self) -> bool {
        self.not_before.take_if(|at| Instant::now() >= *at);
        self.not_before.is_none()
    }

    /// Has the program run on this many frames.
    fn run(&mut self, count: u32) -> io::Result<()> {
        self.counters.calls += 1;
        self.program
            .run_live(&self.bytes, self.metadata_len, count, count)
    }
}

/// Frames that one run of the program takes: itself and 33 tail calls, the kernel's most.
const RUN_LEN: u64 = 34;

/// The first of these frames, as many as have the same EtherType as the first and find a place.
fn alike<'a>(frames: &'a [Descriptor], most: usize, umem: &Umem) -> &'a [Descriptor] {
    let kind = |frame: &Descriptor| umem.bytes(frame.address, frame.len)?.get(ETHERTYPE);
    let first = kind(&frames[0]);
    let others = frames
        .iter()
        .take(most)
        .take_while(|frame| kind(frame) == first);
    &frames[..others.count()]
}
