//! The program by which slots' holders send live frames, and what it takes to lend it.
//!
//! It is one for all of an interface (`exos_filter::gate::live` says why), and stays in the kernel's dispatcher as long as the daemon
//! has it in a place where it receives nothing. Its name is that of the interface's other programs in the BPF file system:
//!
//! ```text
//! live         the program; a successor of the same version lends it on
//! guard<ID>    the kernel asks who attaches XDP programs, as long as somebody may have the one of this number
//! ```

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use exos_filter::gate::limits::SLOTS;
use exos_filter::gate::maps::{FRAMES, SECRET_LEN};
use exos_filter::gate::{self, MapFds, Maps, Origin, metadata};
use exos_filter::guard::{ANSWER, FUNCTION, GuardLayout, QUESTION, guard};
use exos_host::bpf::{KernelTypes, Map, Nowhere, Prog, Question, refusal_to_attach};
use exos_host::error::{Context as _, Error, Result};
use exos_host::netlink::Netdev;
use exos_host::netns::NetNs;
use exos_host::random::random;
use exos_host::sysfs::Sysfs;
use exos_wire::ethernet;

use super::device::Device;
use super::pins::are_private;
use super::{guards, remains};
use crate::ledger::SlotId;

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

/// The name of the program.
const NAME: &str = "live";

/// Live frames through one gate.
#[derive(Debug)]
pub(super) struct Live {
    /// What they are lent with, or why they are not.
    lending: Result<Lending>,
    /// Has the programs that they were and are lent by stay in the kernel's dispatcher.
    _places: Places,
    ifindex: u32,
    maps: Arc<Maps<Map>>,
}

/// What live frames are lent with.
#[derive(Debug)]
struct Lending {
    program: Prog,
    netdev: Netdev,
    /// How many frames the device has dropped.
    dropped: File,
    /// Bytes of the longest.
    frame_len_max: u64,
}

/// Programs that somebody may have, each in a place where it receives nothing: a run of one that is in no place has the
/// kernel patch its text, and others wait.
#[derive(Debug, Default)]
struct Places(Vec<Nowhere>);

impl Places {
    /// Of all that an earlier daemon lent here, as far as somebody has them. Guards of others go.
    fn of_earlier(folder: &Path) -> Self {
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let lent = |name: &Path| match guards::guarded(name) {
            Some(id) => match Prog::by_id(id) {
                Ok(Some(program)) => Some(program),
                Ok(None) => std::fs::remove_file(name).ok().and(None),
                Err(_) => None,
            },
            None if name.ends_with(NAME) => Prog::open_pinned(name).ok(),
            None => None,
        };
        let mut numbers = Vec::new();
        let mut places = Vec::new();
        for program in names.filter_map(|name| lent(&name.path())) {
            let number = program.info().map_or(0, |info| info.id);
            if !numbers.contains(&number) {
                numbers.push(number);
                places.extend(Nowhere::attach(&program));
            }
        }
        Self(places)
    }

    /// One more.
    fn add(&mut self, program: &Prog) -> Result<()> {
        self.0.push(Nowhere::attach(program)?);
        Ok(())
    }
}

impl Lending {
    /// Loads the program for an interface, and has the kernel ask its guard.
    ///
    /// # Errors
    ///
    /// Why it cannot be lent.
    fn open(
        folder: &Path,
        device: &Device<'_>,
        (fds, types): (&MapFds, Option<&KernelTypes>),
        who: LiveFrames,
        places: &mut Places,
    ) -> Result<Self> {
        check(who)?;
        let types = types.ok_or_else(|| unknown("how its structures lie"))?;
        let netdev = Netdev::open()?;
        let netdev = netdev.ok_or_else(|| unknown("whether redirected frames arrive"))?;
        let path = format!("class/net/{}/statistics/tx_dropped", device.name);
        let dropped = Sysfs::of(&NetNs::current()?)?.open(&path)?;
        let origin = types.function("bpf_cast_to_kern_ctx");
        let origin = origin.and_then(|cast| Origin::from_layout(cast, member_of(types)));
        let origin = origin.ok_or_else(|| unknown("what a frame of XDP is"))?;
        let guard = match who {
            LiveFrames::Guarded => Some(ask(types)?),
            _ => None,
        };
        let program = Prog::load(&gate::live(fds, &origin).words(), "exos_live", false)?;
        let program = named(folder, program, places)?;
        if let Some(guard) = guard {
            let name = guards::name_of(folder, program.info()?.id);
            if !name.exists() {
                guard.pin(&name)?;
            }
        }
        Ok(Self {
            program,
            netdev,
            dropped,
            frame_len_max: u64::from(device.mtu) + ethernet::LEN as u64,
        })
    }

    /// Whether the device takes redirected frames now.
    fn arrive(&mut self, ifindex: u32) -> bool {
        let features = self.netdev.xdp_features(ifindex).ok().flatten();
        features.is_some_and(|features| features.is_target())
    }
}

/// Whether they may be lent at all.
fn check(who: LiveFrames) -> Result<()> {
    match who {
        LiveFrames::Never => Err(Error::new("they are turned off (--live-frames)")),
        LiveFrames::Guarded if are_private() => Err(Error::new(
            "/sys/fs/bpf is of this mount namespace alone, and their guard would end with the daemon",
        )
        .mend("start it outside, with --namespace NAME")),
        LiveFrames::Guarded | LiveFrames::Trusted => Ok(()),
    }
}

fn unknown(what: &str) -> Error {
    Error::new(format!("this kernel does not say {what}"))
        .mend("use Linux 6.3 or newer, with CONFIG_DEBUG_INFO_BTF")
}

/// Where members of the kernel's structures lie, in bits.
fn member_of(types: &KernelTypes) -> impl Fn(&str, &str) -> Option<u32> + Copy {
    |structure, name| Some(types.member(structure, name)?.offset_bits)
}

/// The program by its name in the folder: one of an earlier daemon that is like it, guarded already, or this, which takes its place.
fn named(folder: &Path, program: Prog, places: &mut Places) -> Result<Prog> {
    let name = folder.join(NAME);
    if let Ok(earlier) = Prog::open_pinned(&name)
        && earlier.info()?.tag == program.info()?.tag
    {
        return Ok(earlier);
    }
    places.add(&program)?;
    let new = folder.join("live_new");
    let _ = std::fs::remove_file(&new);
    program.pin(&new)?;
    std::fs::rename(&new, &name).context(|| format!("cannot name {}", name.display()))?;
    Ok(program)
}

/// Has the kernel ask the guard, and makes sure that it does.
fn ask(types: &KernelTypes) -> Result<Question> {
    const MEND: &str =
        "if no program would stop other interfaces of the host: --live-frames trusted";
    let layout = GuardLayout::from_layout(member_of(types)).zip(types.function(FUNCTION));
    let (layout, function) = layout.ok_or_else(|| unknown("who attaches programs"))?;
    let asked = Question::ask(&guard(&layout).words(), "exos_guard", function);
    let asked = asked.map_err(|error| error.mend(MEND))?;
    if refusal_to_attach(QUESTION) != Some(ANSWER) {
        return Err(Error::new(
            "this kernel asks no program who attaches others: its security module `bpf` is off",
        )
        .mend(format!("boot with it (lsm=...,bpf); or {MEND}")));
    }
    Ok(asked)
}

/// What the holder of a slot sends live frames with.
#[derive(Debug)]
pub(super) struct LentLive {
    /// What stands before each frame.
    pub(super) metadata: Vec<u8>,
    /// The program, and how many frames the device has dropped.
    pub(super) descriptors: [OwnedFd; 2],
}

impl Live {
    /// Has live frames sent through this gate, where that can be. Where it cannot, nobody sends any more, not even those whom
    /// an earlier daemon lent them.
    pub(super) fn open(
        folder: &Path,
        device: &Device<'_>,
        maps: &Arc<Maps<Map>>,
        types: Option<&KernelTypes>,
        who: LiveFrames,
    ) -> Result<Self> {
        let mut places = Places::of_earlier(folder);
        let fds = maps.map(|map| map.raw_fd());
        let live = Self {
            lending: Lending::open(folder, device, (&fds, types), who, &mut places),
            _places: places,
            ifindex: device.index,
            maps: Arc::clone(maps),
        };
        if live.lending.is_err() {
            live.maps.wire.delete(&0_u32.to_ne_bytes())?;
            (0..SLOTS).try_for_each(|slot| remains::forget_secret(&live.maps, slot))?;
        }
        Ok(live)
    }

    /// Why nobody is lent live frames; None where they are.
    pub(super) fn why_not(&self) -> Option<&Error> {
        self.lending.as_ref().err()
    }

    /// Looks whether the device takes live frames: what is sent otherwise would be lost without a word.
    pub(super) fn look_at_device(&mut self) {
        let ifindex = self.ifindex;
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
    pub(super) fn lend(
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
        let copies = || {
            let program = lending.program.as_fd().try_clone_to_owned()?;
            Ok([program, lending.dropped.try_clone()?.into()])
        };
        let copies: std::io::Result<_> = copies();
        let descriptors = copies.context(|| "cannot pass the program of live frames")?;
        self.maps.queues.set_fd(slot, queue.as_fd())?;
        self.maps.frames.set_fd(slot, frames.as_fd())?;
        // At last, for with it frames leave.
        let value = [&secret[..], &lending.frame_len_max.to_ne_bytes()].concat();
        self.maps.secrets.update(&slot.to_ne_bytes(), &value)?;
        Ok(Some(LentLive {
            metadata: metadata(slot, secret).to_vec(),
            descriptors,
        }))
    }
}
