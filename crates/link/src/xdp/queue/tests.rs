//! The data path against a kernel of our own making: without privilege, with
//! every order of events, and with a kernel that lies.

use std::collections::{HashSet, VecDeque};

use proptest::prelude::*;

use super::super::arrivals::tests as arrivals;
use super::super::socket::{Descriptor, Peer, Socket};
use super::super::umem::{Umem, chunk_size_for};
use super::Queue;
use crate::limits::{
    CHUNKS, FRAME_OVERHEAD_LEN, RX_BATCH, RX_RING_SIZE, RX_SHARE_MAX, XDP_HEADROOM_LEN,
};
use crate::meta::{Relay, RxChecksum};

/// A kernel that does what it should, when it is told to.
struct Kernel {
    peer: Peer,
    memory: *mut u8,
    chunk_size: usize,
    /// Chunks of frames that were sent and not yet reported.
    sent: VecDeque<u64>,
    /// Bytes of a frame of which the last piece has not been seen.
    pieces: Vec<u8>,
}

fn queue(mtu: usize) -> (Queue, Kernel) {
    let (mut socket, peer) = Socket::simulated();
    let mut umem = Umem::new(CHUNKS, chunk_size_for(mtu)).unwrap();
    let filled = socket.refill(&mut umem, RX_RING_SIZE).unwrap();
    let kernel = Kernel {
        peer,
        memory: umem.memory().start().as_ptr(),
        chunk_size: umem.chunk_size() as usize,
        sent: VecDeque::new(),
        pieces: Vec::new(),
    };
    let frame_len_max = mtu + FRAME_OVERHEAD_LEN;
    (
        Queue::new(socket, umem, filled, frame_len_max, RxChecksum::Unknown),
        kernel,
    )
}

impl Kernel {
    /// Delivers a frame in as many chunks as it needs; false when there are none.
    fn deliver(&mut self, frame: &[u8]) -> bool {
        let space = self.chunk_size - XDP_HEADROOM_LEN;
        let count = frame.len().div_ceil(space) as u32;
        let chunks = self.peer.fill.peek(count).unwrap();
        if chunks < count || self.peer.rx.reserve(count).unwrap() < count {
            return false;
        }
        for (i, piece) in frame.chunks(space).enumerate() {
            let address = self.peer.fill.read(i as u32) + XDP_HEADROOM_LEN as u64;
            // SAFETY: an aligned chunk of UMEM that the fill ring gave us.
            unsafe {
                let to = self.memory.add(address as usize);
                to.copy_from_nonoverlapping(piece.as_ptr(), piece.len());
            }
            let options = if i as u32 + 1 < count {
                Descriptor::CONTINUED
            } else {
                0
            };
            self.peer.rx.write(Descriptor {
                address,
                len: piece.len() as u32,
                options,
            });
        }
        self.peer.rx.commit();
        self.peer.fill.release(count);
        true
    }

    /// Sends what is in the transmit ring, up to this many pieces; returns frames.
    fn send(&mut self, pieces_max: u32) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let count = self.peer.tx.peek(pieces_max).unwrap();
        for i in 0..count {
            let piece = self.peer.tx.read(i);
            assert!(
                piece.address as usize % self.chunk_size + piece.len as usize <= self.chunk_size
            );
            // SAFETY: within one chunk of UMEM, which is not written meanwhile.
            self.pieces.extend_from_slice(unsafe {
                std::slice::from_raw_parts(
                    self.memory.add(piece.address as usize),
                    piece.len as usize,
                )
            });
            self.sent.push_back(piece.address);
            if piece.options & Descriptor::CONTINUED == 0 {
                frames.push(std::mem::take(&mut self.pieces));
            }
        }
        self.peer.tx.release(count);
        frames
    }

    /// Reports chunks as sent, the oldest or the newest first.
    fn complete(&mut self, count: usize, newest: bool) {
        for _ in 0..count {
            let chunk = if newest {
                self.sent.pop_back()
            } else {
                self.sent.pop_front()
            };
            let Some(chunk) = chunk else { break };
            assert_eq!(
                self.peer.completion.reserve(1),
                Ok(1),
                "it can never be full"
            );
            self.peer.completion.write(chunk);
        }
        self.peer.completion.commit();
    }

    /// Every chunk that is not free for sending, each in one place.
    fn held(&mut self) -> HashSet<u64> {
        let mask = !(self.chunk_size as u64 - 1);
        let mut held: Vec<u64> = self.sent.iter().copied().collect();
        let filled = self.peer.fill.peek(u32::MAX).unwrap();
        held.extend((0..filled).map(|i| self.peer.fill.read(i)));
        let queued = self.peer.tx.peek(u32::MAX).unwrap();
        held.extend((0..queued).map(|i| self.peer.tx.read(i).address));
        let distinct: HashSet<u64> = held.iter().map(|address| address & mask).collect();
        assert_eq!(distinct.len(), held.len(), "a chunk is in two places");
        distinct
    }
}

/// What comes past the ring is taken beside it, the older of the two first, and sent on by the ring like the rest.
#[test]
fn what_comes_past_the_ring_is_taken_in_turn() {
    let (mut queue, mut kernel) = queue(1500);
    queue.receive_past_ring(arrivals::arrivals());
    let mut program = arrivals::Program::default();
    let frame = |n: u8| vec![n; 60];
    let put = |queue: &Queue, program: &mut arrivals::Program, n| {
        let memory = queue.arrivals.as_ref().expect("just given");
        program.put(memory, &frame(n))
    };
    let received = |queue: &mut Queue| {
        let mut all = Vec::new();
        let count = queue.receive(|frame, _| all.push(frame[0]));
        assert_eq!(count, all.len());
        all
    };
    assert!(!put(&queue, &mut program, 0), "nobody has looked yet");
    assert!(kernel.deliver(&frame(0)));
    assert_eq!(received(&mut queue), [0]);
    assert!(put(&queue, &mut program, 1));
    assert!(kernel.deliver(&frame(2)));
    assert_eq!(
        received(&mut queue),
        [2, 1],
        "those of the ring were on their way before"
    );
    assert!(put(&queue, &mut program, 3));
    assert!(!queue.prepare_next_wait(), "one is here");
    assert!(!put(&queue, &mut program, 4));
    assert!(kernel.deliver(&frame(4)));
    let mut shown = Vec::new();
    queue.look(5, &mut |frame| shown.push(frame[0]));
    assert_eq!(shown, [4, 3]);
    let relayed = queue.relay(|frame, _| {
        frame[1] = 9;
        Relay::Onward
    });
    assert_eq!(relayed, 2);
    queue.flush().unwrap();
    let sent = kernel.send(u32::MAX);
    let sent: Vec<_> = sent.iter().map(|f| (f[0], f[1], f.len())).collect();
    assert_eq!(sent, [(3, 9, 60), (4, 9, 60)]);
    kernel.complete(2, false);
    assert!(queue.prepare_next_wait());
    assert_eq!(queue.counters.rx_frames, 5);
}

/// Half of those that wait, so that the answers leave meanwhile; few are taken all at once.
#[test]
fn a_batch_is_half_of_what_waits_within_bounds() {
    for (waiting, taken) in [
        (0, 0),
        (1, 1),
        (32, 32),
        (33, 32),
        (64, 32),
        (65, 32),
        (100, 50),
        (128, 64),
        (511, 255),
        (1000, 256),
    ] {
        let (mut queue, mut kernel) = queue(1500);
        for _ in 0..waiting {
            assert!(kernel.deliver(&[7; 60]));
        }
        assert_eq!(queue.receive(|_, _| {}), taken, "of {waiting}");
    }
}

/// What waits beside the ring counts like what waits in it.
#[test]
fn a_batch_is_half_of_what_waits_by_both_ways() {
    let (mut queue, mut kernel) = queue(1500);
    let mut program = arrivals::Program::default();
    queue.receive_past_ring(arrivals::arrivals());
    assert_eq!(queue.receive(|_, _| {}), 0);
    let memory = queue.arrivals.as_ref().expect("just given");
    (0..60).for_each(|_| assert!(program.put(memory, &[7; 60])));
    (0..40).for_each(|_| assert!(kernel.deliver(&[7; 60])));
    assert_eq!(queue.receive(|_, _| {}), 50);
}

#[derive(Clone, Debug)]
enum Step {
    Deliver {
        count: usize,
        len: usize,
    },
    Receive,
    /// Take in a batch, and send on every so manieth frame, changed.
    Relay {
        every: usize,
    },
    Transmit {
        count: usize,
        head: usize,
        body: Vec<usize>,
    },
    Flush,
    Send {
        pieces: u32,
    },
    Complete {
        count: usize,
        newest: bool,
    },
}

fn step(len_max: usize) -> impl Strategy<Value = Step> {
    let body = prop::collection::vec(0..len_max / 4, 0..4);
    prop_oneof![
        (1..400usize, 14..len_max).prop_map(|(count, len)| Step::Deliver { count, len }),
        Just(Step::Receive),
        (1..4usize).prop_map(|every| Step::Relay { every }),
        (1..400usize, 14..100usize, body).prop_map(|(count, head, body)| Step::Transmit {
            count,
            head,
            body
        }),
        Just(Step::Flush),
        (1..3000u32).prop_map(|pieces| Step::Send { pieces }),
        (1..3000usize, any::<bool>()).prop_map(|(count, newest)| Step::Complete { count, newest }),
    ]
}

/// Frames that differ from their neighbours.
struct Frames(u8);

impl Frames {
    fn next(&mut self, len: usize) -> Vec<u8> {
        self.0 = self.0.wrapping_add(1);
        (0..len)
            .map(|i| self.0 ^ i as u8 ^ (i >> 8) as u8)
            .collect()
    }
}

fn run(mtu: usize, steps: Vec<Step>) {
    let (mut queue, mut kernel) = queue(mtu);
    let mut frames = Frames(0);
    let mut incoming = VecDeque::new();
    // Frames that are to be sent, and whether they surely are.
    let (mut queued, mut flushed) = (VecDeque::new(), VecDeque::new());
    for step in steps {
        match step {
            Step::Deliver { count, len } => {
                for _ in 0..count {
                    let frame = frames.next(len);
                    if kernel.deliver(&frame) {
                        incoming.push_back(frame);
                    }
                }
            }
            Step::Receive => receive(&mut queue, &mut incoming),
            Step::Relay { every } => {
                relay(&mut queue, &mut incoming, &mut queued, every);
            }
            Step::Transmit { count, head, body } => {
                for _ in 0..count {
                    let room = queue.room();
                    let frame = frames.next(head + body.iter().sum::<usize>());
                    let (first, mut rest) = frame.split_at(head);
                    let parts = body.iter().map(|&len| rest.split_off(..len).unwrap());
                    let taken = queue.transmit(first, &parts.collect::<Vec<_>>());
                    assert!(taken || room == 0, "what there is room for is taken");
                    queued.extend(taken.then_some((frame, true)));
                }
            }
            Step::Flush => {
                queue.flush().unwrap();
                flushed.append(&mut queued);
            }
            Step::Send { pieces } => {
                for frame in kernel.send(pieces) {
                    let mut due = flushed.drain(..);
                    // Of a batch in which one found no room it is not known which.
                    let found = due.by_ref().find(|(f, sure)| *sure || *f == frame);
                    assert!(
                        found.is_some_and(|(f, _)| f == frame),
                        "what is flushed is sent, in order"
                    );
                    let rest = due.collect();
                    flushed = rest;
                }
            }
            Step::Complete { count, newest } => kernel.complete(count, newest),
        }
    }
    settle(&mut queue, &mut kernel, &mut incoming);
}

fn receive(queue: &mut Queue, incoming: &mut VecDeque<Vec<u8>>) {
    let mut descriptors = 0;
    let count = queue.receive(|frame, _| {
        assert!(
            Some(frame) == incoming.pop_front().as_deref(),
            "what is delivered arrives, in order"
        );
        descriptors += 1;
    });
    assert_eq!(count, descriptors);
    assert!(count <= RX_SHARE_MAX as usize);
}

/// Takes in a batch and sends on every so manieth frame with its first byte changed. One that finds no room is
/// counted, and only then is it lost: `queued` says of each whether it is sure to be sent.
fn relay(
    queue: &mut Queue,
    incoming: &mut VecDeque<Vec<u8>>,
    queued: &mut VecDeque<(Vec<u8>, bool)>,
    every: usize,
) {
    let (refused, sent) = (queue.counters.tx_no_room, queue.counters.tx_frames);
    let mut onward = Vec::new();
    let mut number = 0;
    let mut shown = Vec::new();
    let mut places = VecDeque::new();
    queue.look(RX_BATCH, &mut |frame: &[u8]| {
        places.push_back(frame.as_ptr().addr());
        shown.push(frame.to_vec());
    });
    let space = queue.umem.chunk_size() as usize - XDP_HEADROOM_LEN;
    let of_one_chunk = incoming.iter().filter(|frame| frame.len() <= space);
    assert!(
        of_one_chunk.take(shown.len()).eq(&shown),
        "what is shown is what arrives next, without what is in several chunks"
    );
    let count = queue.relay(|frame, _| {
        assert!(
            Some(&*frame) == incoming.pop_front().as_deref(),
            "what is delivered arrives, in order"
        );
        let shown_at = places.pop_front_if(|_| frame.len() <= space);
        assert!(
            shown_at.is_none_or(|at| at == frame.as_ptr().addr()),
            "what was shown is where it was"
        );
        number += 1;
        if number % every != 0 {
            return Relay::Done;
        }
        frame[0] ^= 0xff;
        onward.push(frame.to_vec());
        Relay::Onward
    });
    assert_eq!(count, number);
    assert!(count <= RX_SHARE_MAX as usize);
    let lost = (queue.counters.tx_no_room - refused) as usize;
    let left = (queue.counters.tx_frames - sent) as usize;
    assert_eq!(onward.len() - lost, left);
    queued.extend(onward.into_iter().map(|frame| (frame, lost == 0)));
}

/// Lets everything go its way: all frames arrive, all chunks come back.
fn settle(queue: &mut Queue, kernel: &mut Kernel, incoming: &mut VecDeque<Vec<u8>>) {
    queue.flush().unwrap();
    kernel.send(u32::MAX);
    assert!(!queue.wants_write());
    kernel.complete(CHUNKS as usize, false);
    queue.collect_sent();
    while !queue.prepare_next_wait() {
        receive(queue, incoming);
    }
    assert!(incoming.is_empty());
    assert_eq!((queue.owed, queue.in_flight), (0, 0));
    assert_eq!(
        kernel.held().len(),
        RX_RING_SIZE as usize,
        "the fill ring is full"
    );
    assert_eq!(
        queue.umem.free() as u32,
        CHUNKS - RX_RING_SIZE,
        "the rest is free"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    /// Every frame arrives once, in order, whole; every chunk comes back.
    #[test]
    fn nothing_is_lost_and_no_chunk(steps in prop::collection::vec(step(1500), 1..30)) {
        run(1500, steps);
    }

    /// So it is with frames of several chunks.
    #[test]
    fn nothing_is_lost_of_large_frames(steps in prop::collection::vec(step(9000), 1..30)) {
        run(9000, steps);
    }

    /// A kernel that names any bytes as received or sent: frames are within the
    /// memory, counted or dropped, and nothing panics.
    #[test]
    fn lies_in_descriptors_do_no_harm(
        received in prop::collection::vec((any::<u64>(), any::<u32>(), any::<u32>()), 1..200),
        near in prop::collection::vec((0..1u64 << 24, 0..5000u32, 0..2u32), 1..200),
        sent in prop::collection::vec(prop_oneof![any::<u64>(), 0..1u64 << 24], 1..200),
    ) {
        let (mut queue, mut kernel) = queue(1500);
        let peer = &mut kernel.peer;
        for (address, len, options) in received.into_iter().chain(near) {
            prop_assert_eq!(peer.rx.reserve(1), Ok(1));
            peer.rx.write(Descriptor { address, len, options });
        }
        peer.rx.commit();
        for address in sent {
            prop_assert_eq!(peer.completion.reserve(1), Ok(1));
            peer.completion.write(address);
        }
        peer.completion.commit();
        let mut turns = 0;
        while !queue.prepare_next_wait() {
            queue.receive(|frame, _| drop(std::hint::black_box(frame.to_vec())));
            turns += 1;
            prop_assert!(turns < 100);
        }
        queue.collect_sent();
        prop_assert!(queue.room() <= CHUNKS as usize);
        queue.flush().unwrap();
    }
}

/// A position that a ring cannot have ends the link: an error, no frames.
#[test]
fn a_forged_position_ends_the_link() {
    for consumed_of_tx in [false, true] {
        let (mut queue, mut kernel) = queue(1500);
        assert!(kernel.deliver(&[1; 60]));
        let words = if consumed_of_tx {
            // SAFETY: the consumer's word is 64 bytes after the producer's.
            unsafe { kernel.peer.tx_words.byte_add(64) }
        } else {
            kernel.peer.rx_words
        };
        // SAFETY: a word of a ring, in memory that stays mapped; one thread.
        unsafe { words.write(77_777) };
        if consumed_of_tx {
            queue.transmit(&[0; 60], &[]);
        }
        queue.room();
        queue.receive(|_, _| assert!(consumed_of_tx, "the ring's positions are forged"));
        assert!(queue.flush().is_err());
        assert_eq!(queue.receive(|_, _| panic!("after the fault")), 0);
        assert!(!queue.transmit(&[0; 60], &[]));
        assert!(queue.counters().contains(&("ring_fault", 1)));
    }
}
