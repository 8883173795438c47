//! The program by which slots' holders send live frames, and what it takes to lend it.
//!
//! It is one for all of an interface (`exos_filter::gate::live` says why), and stays in the kernel's dispatcher as long as the daemon
//! has it in a place where it receives nothing. Its name is that of the interface's other programs in the BPF file system:
//!
//! ```text
//! live         the program; a successor finds the one that holders have
//! guard<ID>    the kernel asks who attaches XDP programs, as long as somebody may have the one of this number
//! ```
//!
//! A guard stays when the gate is taken down and somebody has the program still. The next daemon here, or `--clean`, takes it away
//! when nobody has.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use exos_filter::gate::limits::SLOTS;
use exos_filter::gate::maps::{FRAMES, SECRET_LEN};
use exos_filter::gate::{self, MapFds, Origin, metadata};
use exos_filter::guard::{FUNCTION, GuardLayout, guard};
use exos_host::bpf::{KernelTypes, Map, Nowhere, Prog, Question, prog_exists};
use exos_host::error::{Context as _, Error, Result};
use exos_host::netlink::Netdev;
use exos_host::netns::NetNs;
use exos_host::sysfs::Sysfs;

use super::Gate;
use crate::ledger::SlotId;
use crate::random::random;

/// Who is lent the program of live frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LiveFrames {
    /// Programs, where the kernel keeps them from attaching its XDP program to an interface
    #[default]
    Guarded,
    /// Programs, even where one could attach it to another interface of its network namespace, which then receives nothing
    Trusted,
    /// Nobody
    Never,
}

/// The names of guards.
const GUARD: &str = "guard";

/// What live frames are lent with.
#[derive(Debug)]
pub(super) struct Lending {
    program: Prog,
    /// Keeps it cheap to run.
    _place: Nowhere,
    /// And the one that those who were lent it by an earlier daemon have.
    _earlier: Option<Nowhere>,
    netdev: Netdev,
    /// How many frames the device has dropped.
    dropped: File,
}

impl Lending {
    /// Loads the program for the interface of this name, and has the kernel ask its guard.
    ///
    /// # Errors
    ///
    /// Why it cannot be lent.
    pub(super) fn open(
        folder: &Path,
        interface: &str,
        fds: &MapFds,
        types: Option<&KernelTypes>,
        who: LiveFrames,
    ) -> Result<Self> {
        if who == LiveFrames::Never {
            return Err(Error::new("they are turned off (--live-frames)"));
        }
        let unknown = |what: &str| {
            Error::new(format!("this kernel does not say {what}"))
                .mend("use Linux 6.3 or newer, with CONFIG_DEBUG_INFO_BTF")
        };
        let types = types.ok_or_else(|| unknown("how its structures lie"))?;
        let netdev = Netdev::open()?;
        let netdev = netdev.ok_or_else(|| unknown("whether redirected frames arrive"))?;
        let path = format!("class/net/{interface}/statistics/tx_dropped");
        let dropped = Sysfs::of(&NetNs::current()?)?.open(&path)?;
        let member = |structure: &str, name: &str| Some(types.member(structure, name)?.offset_bits);
        let origin = types.function("bpf_cast_to_kern_ctx");
        let origin = origin.and_then(|cast| Origin::from_layout(cast, member));
        let origin = origin.ok_or_else(|| unknown("what a frame of XDP is"))?;
        // As the program at the device, with which it shares a map of interfaces.
        let program = Prog::load(&gate::live(fds, &origin).words(), "exos_live", true)?;
        if who == LiveFrames::Guarded {
            let layout = GuardLayout::from_layout(member).zip(types.function(FUNCTION));
            let (layout, function) = layout.ok_or_else(|| unknown("who attaches programs"))?;
            let asked = Question::ask(&guard(&layout).words(), "exos_guard", function);
            let asked = asked.map_err(|error| {
                error.mend(
                    "if no program would stop other interfaces of the host: --live-frames trusted",
                )
            })?;
            asked.pin(&folder.join(format!("{GUARD}{}", program.info()?.id)))?;
        }
        let name = folder.join("live");
        let earlier = Prog::open_pinned(&name).ok();
        let earlier = earlier
            .map(|earlier| Nowhere::attach(&earlier))
            .transpose()?;
        let _ = std::fs::remove_file(&name);
        program.pin(&name)?;
        Ok(Self {
            _place: Nowhere::attach(&program)?,
            _earlier: earlier,
            program,
            netdev,
            dropped,
        })
    }

    /// Whether the device takes redirected frames now.
    fn arrive(&mut self, ifindex: u32) -> bool {
        let features = self.netdev.xdp_features(ifindex).ok().flatten();
        features.is_some_and(|features| features.is_target())
    }
}

/// What the holder of a slot sends live frames with.
#[derive(Debug)]
pub(super) struct LentLive {
    /// What stands before each frame.
    pub(super) metadata: Vec<u8>,
    /// The program, and how many frames the device has dropped.
    pub(super) descriptors: [OwnedFd; 2],
}

impl Gate {
    /// Why nobody is lent live frames; None where they are.
    pub fn lends_no_live_frames(&self) -> Option<&Error> {
        self.lending.as_ref().err()
    }

    /// Looks whether the device takes live frames: what is sent otherwise would be lost without a word.
    pub fn look_at_device(&mut self) {
        let ifindex = self.config.ifindex;
        let Ok(lending) = &mut self.lending else {
            return;
        };
        let key = 0_u32.to_ne_bytes();
        let _ = match lending.arrive(ifindex) {
            true => self.maps.wire.update(&key, &ifindex.to_ne_bytes()),
            false => self.maps.wire.delete(&key).map(drop),
        };
    }

    /// Lets a slot's holder send live frames out of this memory; None where nobody does, or where it is not like others'.
    pub(super) fn lend_live(
        &self,
        slot: SlotId,
        (queue, frames): (&Map, &Map),
        chunk_size: u32,
    ) -> Result<Option<LentLive>> {
        let Ok(lending) = &self.lending else {
            return Ok(None);
        };
        if chunk_size as usize != FRAMES.value_size {
            return Ok(None);
        }
        let mut secret: [u8; SECRET_LEN] = random();
        secret[0] |= 1;
        self.maps.queues.set_fd(slot, queue.as_fd())?;
        self.maps.frames.set_fd(slot, frames.as_fd())?;
        self.maps.secrets.update(&slot.to_ne_bytes(), &secret)?;
        let copies = || {
            Ok([
                lending.program.as_fd().try_clone_to_owned()?,
                lending.dropped.try_clone()?.into(),
            ])
        };
        let copies: std::io::Result<_> = copies();
        Ok(Some(LentLive {
            metadata: metadata(slot, secret).to_vec(),
            descriptors: copies.context(|| "cannot pass the program of live frames")?,
        }))
    }

    /// Nobody sends live frames any more, too who was lent them by an earlier daemon.
    pub(super) fn end_live_frames(&self) -> Result<()> {
        self.maps.wire.delete(&0_u32.to_ne_bytes())?;
        let mut slots = 0..SLOTS;
        slots.try_for_each(|slot| {
            let key = slot.to_ne_bytes();
            self.maps.secrets.update(&key, &[0; SECRET_LEN])
        })
    }

    /// Nobody sends live frames for the slot any more.
    pub(super) fn forget_live(&self, slot: SlotId) -> Result<()> {
        let key = slot.to_ne_bytes();
        self.maps.secrets.update(&key, &[0; SECRET_LEN])?;
        self.forget_memory(&self.maps.queues, slot)?;
        self.forget_memory(&self.maps.frames, slot)
    }
}

/// Whether a name is that of a guard; then the number of the program that somebody may have.
fn guarded(name: &Path) -> Option<u32> {
    name.file_name()?
        .to_str()?
        .strip_prefix(GUARD)?
        .parse()
        .ok()
}

/// Takes away a name of the gate that is to go, but for guards of programs which somebody has: whether it did.
pub(super) fn remove_name(name: &Path) -> Result<bool> {
    let is_held = |id| prog_exists(id).unwrap_or(true);
    if guarded(name).is_some_and(is_held) {
        return Ok(false);
    }
    std::fs::remove_file(name).context(|| format!("cannot remove {}", name.display()))?;
    Ok(true)
}

/// The order in which names go: a guard behind the program that it is there for.
pub(super) fn is_guard(name: &Path) -> bool {
    guarded(name).is_some()
}
