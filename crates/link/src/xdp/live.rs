//! Many frames at once: a program of ours that the kernel runs for each of them, on frames that really leave.
//!
//! A descriptor of the transmit ring costs the kernel a socket buffer, and the receiver a round of soft interrupts; a frame
//! that leaves this way costs neither, but a call costs as much as some ten descriptors, whatever it sends
//! (`exos_host::bpf::LiveProg`). The frames lie where those of the ring do: the memory of the socket is an array that
//! the program reads ([`exos_filter::transmit`]), so that which way a batch takes is decided when it is sent.
//!
//! What is redirected to an interface may be lost there without a word: a veth takes it only where the other end has an XDP
//! program or GRO. So that is asked when the link is opened and, when there are many frames to send, every
//! [`LIVE_RECHECK_INTERVAL`] and after each [`LIVE_PAUSE`]; what has left meanwhile may be lost, and is told. A frame that is
//! sent again by itself goes by the ring. What a full veth drops is counted by the interface ([`Losses`]).

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use exos_filter::transmit::{
    BEGINNING_LEN, DESCRIPTORS, QUEUE_LEN, QUEUE_WORDS, REFUSED, TAKEN, TransmitMaps,
};
use exos_filter::transmit::{descriptor, transmit};
use exos_host::bpf::{LIVE_FRAMES_MAX, LiveProg, Map, MappedArray, Prog};
use exos_host::netlink::Netdev;

use super::interface::Interface;
use super::losses::Losses;
use super::socket::Descriptor;
use crate::Error;
use crate::limits::{LIVE_PAUSE, LIVE_RECHECK_INTERVAL};

const _: () = assert!(LIVE_FRAMES_MAX == QUEUE_LEN);

/// The way of many frames out of one socket's memory.
#[derive(Debug)]
pub(super) struct LiveFrames {
    program: LiveProg,
    queue: MappedArray,
    chunk_size: u32,
    /// Tells whether the interface takes what is redirected to it.
    netdev: Netdev,
    interface: u32,
    /// The queue that frames are to arrive by at the other end, and how many the interface has.
    arrives_by: u32,
    queues: u32,
    /// When the interface was last asked whether it takes what is redirected to it.
    checked: Instant,
    /// When there were frames to send this way last.
    asked: Instant,
    usable: bool,
    /// Frames that have left since it was.
    unsure: u64,
    /// What the interface drops, where this can be known.
    losses: Option<Losses>,
    /// Frames handed over so far, as the program counts them.
    taken: u64,
    counters: Counters,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) frames: u64,
    pub(super) calls: u64,
    pub(super) failed: u64,
    /// What the program has refused.
    pub(super) refused: u64,
    /// Frames that left while the interface may not have taken them.
    pub(super) unsure: u64,
}

impl Counters {
    /// By name.
    pub(super) fn named(self) -> [(&'static str, u64); 5] {
        [
            ("tx_live_frames", self.frames),
            ("tx_live_calls", self.calls),
            ("tx_live_failed", self.failed),
            ("tx_live_refused", self.refused),
            ("tx_live_unsure", self.unsure),
        ]
    }
}

impl LiveFrames {
    /// Makes what it takes for an interface in the calling thread's network namespace, over the memory that `frames` is.
    ///
    /// That the interface does not take them now is no error: it may later.
    ///
    /// # Errors
    ///
    /// Nobody can tell whether it does, or the kernel refuses a part.
    pub(super) fn open(
        interface: &Interface,
        arrives_by: u32,
        frames: &Map,
        chunk_size: u32,
    ) -> Result<Self, Error> {
        let mut netdev = Netdev::open()?.ok_or_else(|| nobody_knows(interface))?;
        let usable = takes_redirected(&mut netdev, interface.index)?;
        let queue = MappedArray::new("exos_tx", 8 * QUEUE_WORDS, 1)?;
        let interfaces = Map::devmap(1)?;
        interfaces.update(&0_u32.to_ne_bytes(), &interface.index.to_ne_bytes())?;
        let maps = TransmitMaps {
            queue_fd: queue.raw_fd(),
            frames_fd: frames.raw_fd(),
            chunks: frames.entries(),
            interfaces_fd: interfaces.raw_fd(),
        };
        let code = transmit(&maps, chunk_size);
        let program = LiveProg::new(Prog::load(&code.words(), "exos_transmit", false)?)?;
        Ok(Self {
            program,
            queue,
            chunk_size,
            netdev,
            interface: interface.index,
            arrives_by,
            queues: interface.queues,
            checked: Instant::now(),
            asked: Instant::now(),
            usable,
            unsure: 0,
            losses: None,
            taken: 0,
            counters: Counters::default(),
        })
    }

    /// With the count of what the interface drops.
    pub(super) fn watch(self, losses: Option<Losses>) -> Self {
        Self { losses, ..self }
    }

    /// Frames that the interface has dropped so far, where this can be known.
    pub(super) fn lost(&self) -> Option<u64> {
        self.losses.as_ref().map(Losses::count)
    }

    /// Whether frames can leave this way now.
    pub(super) fn takes(&mut self, now: Instant) -> bool {
        let pause = now.duration_since(std::mem::replace(&mut self.asked, now));
        if pause >= LIVE_PAUSE || now.duration_since(self.checked) >= LIVE_RECHECK_INTERVAL {
            self.checked = now;
            self.usable = takes_redirected(&mut self.netdev, self.interface).unwrap_or(false);
            if !self.usable {
                self.counters.unsure += self.unsure;
            }
            self.unsure = 0;
        }
        self.keeps_queue() && self.usable
    }

    /// Whether live frames arrive by the queue that those of the ring do: at the other end of a veth by that of the processor that
    /// sends them.
    fn keeps_queue(&self) -> bool {
        // SAFETY: a call without arguments.
        let processor = || unsafe { libc::sched_getcpu() };
        self.queues == 1 || processor() as u32 % self.queues == self.arrives_by
    }

    fn word_of(&self, frame: Descriptor) -> Option<u64> {
        let chunk = frame.address / u64::from(self.chunk_size);
        let offset = frame.address % u64::from(self.chunk_size);
        let whole = frame.options == 0;
        let word = descriptor(self.chunk_size, chunk as u32, offset as u32, frame.len);
        word.filter(|_| whole)
    }

    /// Sends frames when it [takes](Self::takes) any, in order; how many have left, which are all of them unless one does not
    /// fit in a page of the kernel's, or the kernel has no room for more now.
    pub(super) fn send(&mut self, frames: &[Descriptor]) -> usize {
        let mut sent = 0;
        loop {
            let count = self.put(&frames[sent..]);
            if count == 0 {
                break;
            }
            let (left, result) = self.call(count);
            sent += left as usize;
            match result {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.counters.failed += 1;
                    // Not before the next look at the interface.
                    self.usable = false;
                    self.checked = Instant::now();
                    break;
                }
            }
        }
        sent
    }

    /// Writes the descriptors of one call: how many, which is none when the first frame does not fit in a page.
    fn put(&self, frames: &[Descriptor]) -> u32 {
        let queue = &self.queue.words()[DESCRIPTORS..][..QUEUE_LEN as usize];
        let words = frames.iter().map_while(|frame| self.word_of(*frame));
        let mut count = 0;
        for word in words.take(LIVE_FRAMES_MAX as usize) {
            let place = self.taken.wrapping_add(count.into()) as usize % queue.len();
            queue[place].store(word, Relaxed);
            count += 1;
        }
        count
    }

    /// One call: how many frames the program took, and how it ended.
    fn call(&mut self, count: u32) -> (u64, io::Result<()>) {
        let beginning = [0; BEGINNING_LEN];
        let result = self.program.run(&beginning, count);
        let taken = self.queue.words()[TAKEN].load(Relaxed);
        let left = taken.wrapping_sub(self.taken).min(count.into());
        self.taken = taken;
        self.counters.calls += 1;
        self.counters.frames += left;
        self.unsure += left;
        (left, result)
    }

    /// What happened so far.
    pub(super) fn counters(&self) -> Counters {
        Counters {
            refused: self.queue.words()[REFUSED].load(Relaxed),
            ..self.counters
        }
    }
}

fn nobody_knows(interface: &Interface) -> Error {
    Error::new(format!(
        "this kernel does not say whether frames that are redirected to {} arrive",
        interface.name
    ))
    .mend("use Linux 6.3 or newer")
}

fn takes_redirected(netdev: &mut Netdev, interface: u32) -> Result<bool, Error> {
    Ok(netdev
        .xdp_features(interface)?
        .is_some_and(|features| features.is_target()))
}
