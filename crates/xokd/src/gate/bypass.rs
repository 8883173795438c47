//! The ways past a slot's interface: the gate's program for the slot's holder to run, with what it takes frames from, and the
//! memory that the slot's frames arrive in.
//!
//! The program is the holder's in the kernel: nothing of it has a name, and all of it goes with the last descriptor. It sends
//! nothing more once the slot is another's, because the slot has another interface then. The memory is the gate's too, for as
//! long as the slot is the holder's.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use exos_filter::arrivals::{FRAME_LEN_MAX, beginning};
use exos_filter::gate::limits::BATCH_PLACES;
use exos_filter::gate::maps::ARRIVALS;
use exos_filter::gate::{self, Batch, Maps, Namespace};
use exos_filter::transmit::QUEUE_WORDS;
use exos_host::bpf::{Map, Prog};
use exos_host::error::{Context as _, Error, Result};
use exos_wire::ethernet;

use super::{Gate, pins, remains};
use crate::ledger::SlotId;

/// For whom the ways past an interface are made.
#[derive(Clone, Copy, Debug)]
pub struct BypassConfig {
    /// The slot.
    pub slot: SlotId,
    /// Its interface.
    pub ifindex: u32,
    /// Bytes of a chunk of its memory.
    pub chunk_size: u32,
    /// With memory for its frames to arrive in.
    pub with_arrivals: bool,
}

/// What it takes to make the ways past a slot's interface, which takes the kernel long.
#[derive(Debug)]
pub struct BypassWork {
    maps: Arc<Maps<Map>>,
    namespace: Namespace,
    config: BypassConfig,
}

/// The ways past a slot's interface, which lead nowhere yet.
#[derive(Debug)]
pub struct MadeBypass {
    chunk_size: u32,
    program: Prog,
    frames: Map,
    queue: Map,
    /// The array of programs.
    programs: Map,
    arrivals: Option<Map>,
}

/// What a slot's holder is passed.
#[derive(Debug)]
pub struct LentBypass {
    /// The kernel's numbers of the arrays of frames and of the queue, and of the memory, by which it is known whether anybody
    /// has them.
    pub maps: Vec<u32>,
    /// The program, the array of frames, the queue, the array of programs; what live frames are sent by; and the memory.
    pub descriptors: Vec<OwnedFd>,
    /// What stands before a live frame; empty where the holder sends none.
    pub live: Vec<u8>,
}

impl BypassWork {
    /// Makes the memory and compiles the program, and has the kernel verify it.
    pub fn make(&self) -> Result<MadeBypass> {
        let config = &self.config;
        let chunk_size = config.chunk_size;
        let frames = Map::mappable_array("exos_frames", chunk_size as usize, BATCH_PLACES)?;
        let queue = Map::mappable_array("exos_tx", 8 * QUEUE_WORDS, 1)?;
        let programs = Map::prog_array(1)?;
        let batch = Batch {
            slot: config.slot,
            ifindex: config.ifindex,
            queue_fd: queue.raw_fd(),
            frames_fd: frames.raw_fd(),
            chunks: BATCH_PLACES,
            chunk_size,
            programs_fd: programs.raw_fd(),
            namespace: Some(self.namespace),
        };
        let fds = self.maps.map(|map| map.raw_fd());
        let program = Prog::load_action(&gate::batch(&fds, &batch).words(), "exos_batch")?;
        programs.set_fd(0, program.as_fd())?;
        // Each change of such an array has the kernel patch its text, on all processors: its holder shall make none.
        programs.freeze()?;
        let arrivals = config
            .with_arrivals
            .then(|| pins::mappable(&ARRIVALS))
            .transpose()?;
        if let Some(arrivals) = &arrivals {
            arrivals.update(&[0; 4], &beginning())?;
        }
        Ok(MadeBypass {
            chunk_size,
            program,
            frames,
            queue,
            programs,
            arrivals,
        })
    }
}

impl Gate {
    /// What it takes to make the ways past a slot's interface. It fails at once where the kernel does not tell a program in which
    /// network namespace it runs.
    pub fn bypass_work(&self, config: BypassConfig) -> Result<BypassWork> {
        let namespace = self.namespace.ok_or_else(|| {
            Error::new("this kernel does not tell a program in which network namespace it runs")
                .mend("use Linux 6.2 or newer, with CONFIG_DEBUG_INFO_BTF")
        })?;
        Ok(BypassWork {
            maps: Arc::clone(&self.maps),
            namespace,
            config,
        })
    }

    /// Has the ways past a slot's interface, made for it, lead where they are to.
    pub fn lend_bypass(&self, slot: SlotId, made: &MadeBypass) -> Result<LentBypass> {
        let mut maps = vec![made.frames.id()?, made.queue.id()?];
        if let Some(arrivals) = &made.arrivals {
            maps.push(arrivals.id()?);
        }
        let all = [
            made.program.as_fd(),
            made.frames.as_fd(),
            made.queue.as_fd(),
            made.programs.as_fd(),
        ];
        let passed = |fd: BorrowedFd<'_>| {
            let passed = fd.try_clone_to_owned();
            passed.context(|| "cannot pass the program of a slot")
        };
        let descriptors = all.into_iter().map(passed).collect::<Result<Vec<_>>>();
        let mut lent = LentBypass {
            maps,
            descriptors: descriptors?,
            live: Vec::new(),
        };
        let memory = made.arrivals.iter().map(|map| passed(map.as_fd()));
        let memory = memory.collect::<Result<Vec<_>>>()?;
        // At last: what fails before it leaves nothing in the gate.
        let live = self
            .live
            .lend(slot, (&made.queue, &made.frames), made.chunk_size);
        let arrives = || match &made.arrivals {
            Some(arrivals) => self.maps.arrivals.set_fd(slot, arrivals.as_fd()),
            None => Ok(()),
        };
        let live = live.and_then(|live| arrives().map(|()| live));
        if let Some(live) = live.or_else(|error| {
            let forgotten = remains::forget_secret(&self.maps, slot);
            let forgotten = forgotten.and(remains::forget_memory(&self.maps, slot));
            forgotten.and(Err(error))
        })? {
            lent.live = live.metadata;
            lent.descriptors.extend(live.descriptors);
        }
        lent.descriptors.extend(memory);
        Ok(lent)
    }
}

/// Whether every frame of a link fits a place of the memory that it could arrive in: one that does not has all of them take the
/// interface for a while.
pub fn may_arrive_in_memory(mtu: u32) -> bool {
    mtu as usize + ethernet::LEN <= FRAME_LEN_MAX
}

/// Bytes of memory of the ways past an interface, in whole pages: the array of frames in chunks of this many bytes, the queue, and
/// what frames arrive in.
pub fn bypass_bytes(chunk_size: u32, with_arrivals: bool) -> u64 {
    let frames = u64::from(BATCH_PLACES) * u64::from(chunk_size);
    let queue = 8 * QUEUE_WORDS as u64;
    let arrivals = u64::from(ARRIVALS.entries) * ARRIVALS.value_size as u64;
    let parts = [frames, queue, if with_arrivals { arrivals } else { 0 }];
    parts.iter().map(|bytes| bytes.next_multiple_of(4096)).sum()
}
