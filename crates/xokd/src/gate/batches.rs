//! The gate's program for one slot's holder to run, with what it takes frames from.
//!
//! It is the holder's in the kernel: nothing of it has a name, and all of it goes with the last descriptor. It sends nothing
//! more once the slot is another's, because the slot has another interface then.

use std::os::fd::OwnedFd;

use exos_filter::gate::limits::BATCH_PLACES;
use exos_filter::gate::{self, Batch, Namespace};
use exos_filter::transmit::QUEUE_WORDS;
use exos_host::bpf::{KernelTypes, Map, Prog};
use exos_host::error::{Context as _, Error, Result};
use exos_host::netns::NetNs;
use std::os::fd::AsFd as _;

use super::Gate;
use crate::ledger::SlotId;

/// What a slot's holder is passed.
#[derive(Debug)]
pub struct LentBatch {
    /// The kernel's number of the array of frames, by which it is known whether anybody has it.
    pub frames_id: u32,
    /// The program, the array of frames, the queue, and the array of programs.
    pub descriptors: Vec<OwnedFd>,
}

impl Gate {
    /// Makes the program of a slot whose interface this is, for frames in chunks of this many bytes.
    pub fn lend_batch(&self, slot: SlotId, ifindex: u32, chunk_size: u32) -> Result<LentBatch> {
        let namespace = this_namespace()?.ok_or_else(|| {
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
        let frames_id = frames.id()?;
        let all = [
            program.as_fd(),
            frames.as_fd(),
            queue.as_fd(),
            programs.as_fd(),
        ];
        let descriptors = all.into_iter().map(|fd| fd.try_clone_to_owned());
        let descriptors: std::io::Result<_> = descriptors.collect();
        Ok(LentBatch {
            frames_id,
            descriptors: descriptors.context(|| "cannot pass the program of a slot")?,
        })
    }
}

/// The namespace that this daemon is in, as a program finds it; `None` where the kernel does not say.
fn this_namespace() -> Result<Option<Namespace>> {
    let Ok(types) = KernelTypes::load() else {
        return Ok(None);
    };
    let Some(cast) = types.function("bpf_cast_to_kern_ctx") else {
        return Ok(None);
    };
    let member = |structure: &str, name: &str| Some(types.member(structure, name)?.offset_bits);
    Ok(Namespace::from_layout(
        NetNs::current()?.cookie()?,
        cast,
        member,
    ))
}
