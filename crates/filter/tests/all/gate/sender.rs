//! A slot's holder that sends without the ring: the batch program, its queue and its memory.

use super::{Tables, tail};
use exos_filter::gate::limits::BATCH_PLACES;
use exos_filter::gate::maps::SECRET_LEN;
use exos_filter::gate::{self as gates, Batch, CALL_LEN, METADATA_LEN, Namespace, Origin};
use exos_filter::transmit::{
    BEGINNING_LEN, DESCRIPTORS, END, GIVEN_BACK, QUEUE_LEN, QUEUE_WORDS, REFUSED, RETURNED, TAKEN,
    descriptor,
};
use exos_host::bpf::{KernelTypes, Map, MappedArray, Nowhere, Prog};
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

/// Where the kernel says what a frame of XDP is; None where it does not.
pub fn origin() -> Option<Origin> {
    let types = KernelTypes::load().ok()?;
    let member = |structure: &str, name: &str| Some(types.member(structure, name)?.offset_bits);
    Origin::from_layout(types.function("bpf_cast_to_kern_ctx")?, member)
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
    /// Where the program is one of live frames.
    pub live: Option<Live>,
}

pub struct Live {
    /// What each frame begins as, and the metadata before it.
    pub bytes: Vec<u8>,
    _place: Nowhere,
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
            chunks: QUEUE_LEN,
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
            live: None,
        }
    }

    /// One that sends live frames; None where the kernel does not say what a frame is.
    pub fn live(tables: &Tables, slot: u32, ifindex: u32) -> Option<Self> {
        let code = gates::live(&tables.fds(), &origin()?);
        let program = Prog::load(&code.words(), "gate_live", false)
            .unwrap_or_else(|e| panic!("{}\n{}\n{e}", disassemble(&code.words()), tail(&e.log)));
        let mut sender = Self::new(tables, slot, ifindex);
        sender.frames = MappedArray::new("frames", CHUNK_SIZE as usize, BATCH_PLACES).unwrap();
        let key = slot.to_ne_bytes();
        let secret = [7 + slot as u8; SECRET_LEN];
        let longest = 1514_u64.to_ne_bytes();
        let value = [&secret[..], &longest].concat();
        tables.0.secrets.update(&key, &value).unwrap();
        let maps = [
            (&tables.0.queues, &sender.queue),
            (&tables.0.frames, &sender.frames),
        ];
        for (outer, inner) in maps {
            outer.set_fd(slot, inner.map().as_fd()).unwrap();
        }
        sender.live = Some(Live {
            bytes: [&gates::metadata(slot, secret)[..], &[0; BEGINNING_LEN]].concat(),
            _place: Nowhere::attach(&program).unwrap(),
        });
        sender.program = program;
        Some(sender)
    }

    /// Runs the program on `count` live frames.
    pub fn run_live(&self, count: u32) {
        let live = self.live.as_ref().expect("a sender of live frames");
        let run = |count| {
            self.program
                .run_live(&live.bytes, METADATA_LEN, count, count)
        };
        (0..count / CALL_LEN).for_each(|_| run(CALL_LEN).unwrap());
        let rest = count % CALL_LEN;
        if rest > 0 {
            run(rest).unwrap();
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
            let chunk = n % (self.frames.words().len() as u32 / (CHUNK_SIZE / 8));
            self.write(chunk, frame);
            let word = descriptor(CHUNK_SIZE, chunk, 0, frame.len() as u32).expect("a sound frame");
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
            match &self.live {
                Some(_) => self.run_live(self.word(END).wrapping_sub(self.word(TAKEN)) as u32),
                None => self.program.run_batch(beginning, 0, 1).unwrap(),
            }
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
