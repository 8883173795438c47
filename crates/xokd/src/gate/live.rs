//! The program by which slots' holders send live frames, and what it takes to lend it.
//!
//! It is one for all of an interface (`exos_filter::gate::live` says why), and stays in the kernel's dispatcher as long as the daemon
//! has it in a place where it receives nothing. Its name is that of the interface's other programs in the BPF file system:
//!
//! ```text
//! live         the program; a successor of the same version lends it on
//! guard<ID>    the kernel asks who attaches XDP programs, as long as somebody may have the one of this number
//! ```
//!
//! A guard stays when the gate is taken down and somebody has its program still. The next daemon here, or `--clean`, takes it away
//! when nobody has.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use exos_filter::gate::limits::SLOTS;
use exos_filter::gate::maps::{FRAMES, SECRET_LEN};
use exos_filter::gate::{self, MapFds, Origin, metadata};
use exos_filter::guard::{ANSWER, FUNCTION, GuardLayout, QUESTION, guard};
use exos_host::bpf::{KernelTypes, Map, Nowhere, Prog, Question, prog_exists, refusal_to_attach};
use exos_host::error::{Context as _, Error, Result};
use exos_host::netlink::Netdev;
use exos_host::netns::NetNs;
use exos_host::sysfs::Sysfs;
use exos_wire::ethernet;

use super::{Device, Gate};
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

/// The name of the program, and what those of guards begin with.
const NAME: &str = "live";
const GUARD: &str = "guard";

/// How long a program that was let go may be there still: the kernel forgets names when no processor looks at them any more.
const LINGERS: Duration = Duration::from_millis(200);

/// What live frames are lent with.
#[derive(Debug)]
pub(super) struct Lending {
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
pub(super) struct Places(Vec<Nowhere>);

impl Places {
    /// Of all that an earlier daemon lent here, as far as somebody has them. Guards of others go.
    pub(super) fn of_earlier(folder: &Path) -> Self {
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let lent = |name: &Path| match guarded(name) {
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
    pub(super) fn open(
        folder: &Path,
        device: &Device<'_>,
        (fds, types): (&MapFds, Option<&KernelTypes>),
        who: LiveFrames,
        places: &mut Places,
    ) -> Result<Self> {
        if who == LiveFrames::Never {
            return Err(Error::new("they are turned off (--live-frames)"));
        }
        if who == LiveFrames::Guarded && super::are_private() {
            return Err(Error::new(
                "/sys/fs/bpf is of this mount namespace alone, and their guard would end with the daemon",
            )
            .mend("start it outside, with --namespace NAME"));
        }
        let unknown = |what: &str| {
            Error::new(format!("this kernel does not say {what}"))
                .mend("use Linux 6.3 or newer, with CONFIG_DEBUG_INFO_BTF")
        };
        let types = types.ok_or_else(|| unknown("how its structures lie"))?;
        let netdev = Netdev::open()?;
        let netdev = netdev.ok_or_else(|| unknown("whether redirected frames arrive"))?;
        let path = format!("class/net/{}/statistics/tx_dropped", device.name);
        let dropped = Sysfs::of(&NetNs::current()?)?.open(&path)?;
        let member = |structure: &str, name: &str| Some(types.member(structure, name)?.offset_bits);
        let origin = types.function("bpf_cast_to_kern_ctx");
        let origin = origin.and_then(|cast| Origin::from_layout(cast, member));
        let origin = origin.ok_or_else(|| unknown("what a frame of XDP is"))?;
        let guard = match who {
            LiveFrames::Guarded => {
                let layout = GuardLayout::from_layout(member).zip(types.function(FUNCTION));
                Some(ask(layout.ok_or_else(|| unknown("who attaches programs"))?)?)
            }
            _ => None,
        };
        let mut program = Prog::load(&gate::live(fds, &origin).words(), "exos_live", false)?;
        let name = folder.join(NAME);
        let earlier = Prog::open_pinned(&name).ok();
        let is_like = |other: &Prog| Ok::<_, Error>(other.info()?.tag == program.info()?.tag);
        match earlier {
            // In its place already, and guarded.
            Some(earlier) if is_like(&earlier)? => program = earlier,
            _ => {
                places.add(&program)?;
                let new = folder.join("live_new");
                let _ = std::fs::remove_file(&new);
                program.pin(&new)?;
                std::fs::rename(&new, &name)
                    .context(|| format!("cannot name {}", name.display()))?;
            }
        }
        if let Some(guard) = guard {
            let name = folder.join(format!("{GUARD}{}", program.info()?.id));
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

/// Has the kernel ask the guard, and makes sure that it does.
fn ask((layout, function): (GuardLayout, i32)) -> Result<Question> {
    const MEND: &str =
        "if no program would stop other interfaces of the host: --live-frames trusted";
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

    /// Nobody sends live frames any more, too who was lent them by an earlier daemon.
    pub(super) fn end_live_frames(&self) -> Result<()> {
        self.maps.wire.delete(&0_u32.to_ne_bytes())?;
        let mut slots = 0..SLOTS;
        let remains = self.remains();
        slots.try_for_each(|slot| remains.forget_secret(slot))
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
    if guarded(name).is_some_and(|id| !goes(id)) {
        return Ok(false);
    }
    std::fs::remove_file(name).context(|| format!("cannot remove {}", name.display()))?;
    Ok(true)
}

/// Whether nobody has a program any more, or will in a moment.
fn goes(program: u32) -> bool {
    let until = Instant::now() + LINGERS;
    while prog_exists(program).unwrap_or(true) {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// The order in which names go: a guard behind the program that it is there for.
pub(super) fn is_guard(name: &Path) -> bool {
    guarded(name).is_some()
}
