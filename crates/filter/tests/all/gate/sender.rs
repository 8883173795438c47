//! A slot's holder that sends without the ring: the batch program, its queue and its memory.

use super::{Tables, tail};
use exos_filter::gate::{self as gates, Batch, Namespace};
use exos_filter::transmit::{
    DESCRIPTORS, END, GIVEN_BACK, QUEUE_LEN, QUEUE_WORDS, REFUSED, RETURNED, TAKEN, descriptor,
};
use exos_host::bpf::{KernelTypes, Map, MappedArray, Prog};
use exos_host::netns::NetNs;
use exos_testing::ebpf::disassemble;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

pub const CHUNK_SIZE: u32 = 2048;

/// The calling thread's namespace, as the program tells it; None where the kernel does not say.
pub fn namespace() -> Option<Namespace> {
    let types = KernelTypes::load().ok()?;
    let member = |structure: &str, name: &str| Some(types.member(structure, name)?.offset_bits);
    let cast = types.function("bpf_cast_to_kern_ctx")?;
    Namespace::from_layout(NetNs::current().ok()?.cookie().ok()?, cast, member)
}

/// The words that count, before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    pub taken: u64,
    pub refused: u64,
    pub returned: u64,
}

pub struct Sender {
    pub program: Prog,
    pub queue: MappedArray,
    pub frames: MappedArray,
    pub programs: Map,
    pub ifindex: u32,
}

impl Sender {
    /// Of this slot, whose interface is this one.
    pub fn new(tables: &Tables, slot: u32, ifindex: u32) -> Self {
        let queue = MappedArray::new("queue", 8 * QUEUE_WORDS, 1).unwrap();
        let frames = MappedArray::new("frames", CHUNK_SIZE as usize, QUEUE_LEN).unwrap();
        let programs = Map::prog_array(1).unwrap();
        let batch = Batch {
            slot,
            ifindex,
            queue_fd: queue.raw_fd(),
            frames_fd: frames.raw_fd(),
            chunk_size: CHUNK_SIZE,
            programs_fd: programs.raw_fd(),
            namespace: namespace(),
        };
        let code = gates::batch(&tables.fds(), &batch);
        let program = Prog::load_action(&code.words(), "gate_batch")
            .unwrap_or_else(|e| panic!("{}\n{}\n{e}", disassemble(&code.words()), tail(&e.log)));
        programs.set_fd(0, program.as_fd()).unwrap();
        Self {
            program,
            queue,
            frames,
            programs,
            ifindex,
        }
    }

    pub fn word(&self, at: usize) -> u64 {
        self.queue.words()[at].load(Relaxed)
    }

    pub fn set_word(&self, at: usize, value: u64) {
        self.queue.words()[at].store(value, Relaxed);
    }

    pub fn words(&self) -> Words {
        Words {
            taken: self.word(TAKEN),
            refused: self.word(REFUSED),
            returned: self.word(RETURNED),
        }
    }

    /// The word of the descriptor that is the `n`th from the next one on.
    pub fn place(&self, n: u64) -> usize {
        DESCRIPTORS + (self.word(TAKEN).wrapping_add(n) % u64::from(QUEUE_LEN)) as usize
    }

    /// Writes a chunk's first bytes.
    pub fn write(&self, chunk: u32, frame: &[u8]) {
        let words = CHUNK_SIZE as usize / 8;
        let memory = &self.frames.words()[chunk as usize * words..][..words];
        for (word, bytes) in memory.iter().zip(frame.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(whole), Relaxed);
        }
    }

    /// Puts frames into the queue, as many as it has places for.
    pub fn put<F: AsRef<[u8]>>(&self, frames: &[F]) {
        for (n, frame) in frames.iter().enumerate() {
            let (n, frame) = (n as u32, frame.as_ref());
            self.write(n, frame);
            let word = descriptor(CHUNK_SIZE, n, 0, frame.len() as u32).expect("a sound frame");
            self.set_word(self.place(n.into()), word);
        }
        self.set_word(END, self.word(TAKEN).wrapping_add(frames.len() as u64));
    }

    /// Whether the `n`th frame that was put before `taken` was this is marked as given back.
    pub fn is_given_back(&self, taken: u64, n: u64) -> bool {
        let place = DESCRIPTORS + (taken.wrapping_add(n) % u64::from(QUEUE_LEN)) as usize;
        self.word(place) & GIVEN_BACK != 0
    }

    /// Runs the program until it has taken all.
    pub fn run(&self, beginning: &[u8]) {
        while self.word(TAKEN) != self.word(END) {
            self.program.run_batch(beginning, 0, 1).unwrap();
        }
    }

    /// Sends frames of one ethertype.
    pub fn send<F: AsRef<[u8]>>(&self, frames: &[F]) {
        for frames in frames.chunks(QUEUE_LEN as usize) {
            self.put(frames);
            self.run(&beginning(&frames[0].as_ref()[12..14]));
        }
    }
}

/// What the kernel makes the buffer of: addresses of nobody, this ethertype, and room.
pub fn beginning(ethertype: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 64];
    frame[12..14].copy_from_slice(ethertype);
    frame
}
