//! The gate's program for one slot's holder to run, with what it takes frames from.
//!
//! It is the holder's in the kernel: nothing of it has a name, and all of it goes with the last descriptor. It sends nothing
//! more once the slot is another's, because the slot has another interface then.

use std::os::fd::{AsFd as _, OwnedFd};

use exos_filter::gate::limits::BATCH_PLACES;
use exos_filter::gate::{self, Batch, Namespace};
use exos_filter::transmit::QUEUE_WORDS;
use exos_host::bpf::{KernelTypes, Map, Prog};
use exos_host::error::{Context as _, Error, Result};
use exos_host::netns::NetNs;

use super::Gate;
use crate::ledger::SlotId;

/// What a slot's holder is passed.
#[derive(Debug)]
pub struct LentBatch {
    /// The kernel's numbers of the arrays of frames and of the queue, by which it is known whether anybody has them.
    pub maps: Vec<u32>,
    /// The program, the array of frames, the queue, and the array of programs.
    pub descriptors: Vec<OwnedFd>,
}

impl Gate {
    /// Makes the program of a slot whose interface this is, for frames in chunks of this many bytes. It fails at once where the
    /// kernel does not tell a program in which network namespace it runs.
    pub fn lend_batch(&self, slot: SlotId, ifindex: u32, chunk_size: u32) -> Result<LentBatch> {
        let namespace = self.namespace.ok_or_else(|| {
            Error::new("this kernel does not tell a program in which network namespace it runs")
                .mend("use Linux 6.2 or newer, with CONFIG_DEBUG_INFO_BTF")
        })?;
        let frames = Map::mappable_array("exos_frames", chunk_size as usize, BATCH_PLACES)?;
        let queue = Map::mappable_array("exos_tx", 8 * QUEUE_WORDS, 1)?;
        let programs = Map::prog_array(1)?;
        let batch = Batch {
            slot,
            ifindex,
            queue_fd: queue.raw_fd(),
            frames_fd: frames.raw_fd(),
            chunk_size,
            programs_fd: programs.raw_fd(),
            namespace: Some(namespace),
        };
        let fds = self.maps.map(|map| map.raw_fd());
        let program = Prog::load_action(&gate::batch(&fds, &batch).words(), "exos_batch")?;
        programs.set_fd(0, program.as_fd())?;
        // Each change of such an array has the kernel patch its text, on all processors: its holder shall make none.
        programs.freeze()?;
        let maps = vec![frames.id()?, queue.id()?];
        let all = [
            program.as_fd(),
            frames.as_fd(),
            queue.as_fd(),
            programs.as_fd(),
        ];
        let descriptors = all.into_iter().map(|fd| fd.try_clone_to_owned());
        let descriptors: std::io::Result<_> = descriptors.collect();
        Ok(LentBatch {
            maps,
            descriptors: descriptors.context(|| "cannot pass the program of a slot")?,
        })
    }
}

/// Bytes of memory of a program for frames in chunks of this many bytes: the array of frames, and the queue in whole pages.
pub fn batch_bytes(chunk_size: u32) -> u64 {
    let queue = (8 * QUEUE_WORDS as u64).next_multiple_of(4096);
    u64::from(BATCH_PLACES) * u64::from(chunk_size) + queue
}

/// The namespace that this daemon is in, as a program finds it; `None` where the kernel does not say.
pub(super) fn this_namespace(types: &KernelTypes) -> Option<Namespace> {
    let cast = types.function("bpf_cast_to_kern_ctx")?;
    let member = |structure: &str, name: &str| Some(types.member(structure, name)?.offset_bits);
    let cookie = NetNs::current().and_then(|here| here.cookie()).ok()?;
    Namespace::from_layout(cookie, cast, member)
}
