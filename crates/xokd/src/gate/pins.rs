//! The names of a gate in the BPF file system: what is there is taken over when it fits, else made again.
//!
//! A link or a map whose last name goes ends. So a name is given to another only by who has seen what it stands for:
//! anyone who has no descriptor left to look with fails, and takes nothing away ([`found`]).

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use exos_filter::gate::maps::SPECS;
use exos_filter::gate::{MapSpec, Maps};
use exos_host::bpf::{
    Link, Map, MapKind, Prog, TcxHook, TcxLink, XdpMode, is_private, require_bpffs,
};
use exos_host::error::{Context as _, Error, Result};
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;

use super::guards;

/// Where names are kept.
const BPFFS: &str = "/sys/fs/bpf";

/// The folder of a gate's names.
pub(super) fn folder(name: &str) -> Result<PathBuf> {
    require_bpffs(Path::new(BPFFS))?;
    Ok(Path::new(BPFFS).join("exos").join(name))
}

/// True when the names of gates end with this daemon, and with them what its programs have.
pub fn are_private() -> bool {
    is_private(Path::new(BPFFS))
}

/// The folders of all gates on this machine.
pub fn folders() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(Path::new(BPFFS).join("exos"));
    let entries = entries.into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// True for a gate that is on no interface: its own is gone, or a daemon ended while it made it.
pub fn is_orphan(folder: &Path) -> Result<bool> {
    let is_attached = found(Link::is_attached(&folder.join("in")))?;
    Ok(is_attached != Some(true))
}

/// What a name stands for; `None` when that is nothing, or nothing of ours.
fn found<T>(opened: Result<T>) -> Result<Option<T>> {
    match opened {
        Err(error) if error.has_run_out() => Err(error),
        opened => Ok(opened.ok()),
    }
}

/// What became of the names of a gate that was taken down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakenDown {
    /// There was something that is gone.
    pub something: bool,
    /// Nothing stays. Else guards do, of programs which somebody has.
    pub whole: bool,
}

/// Takes the names of a gate away, and with them the gate.
pub fn remove_folder(folder: &Path) -> Result<TakenDown> {
    remove_host_filter(folder)?;
    let what = || format!("cannot remove {}", folder.display());
    let entries = match std::fs::read_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok(TakenDown {
                something: false,
                whole: true,
            });
        }
        entries => entries.context(what)?,
    };
    forget_slots(folder);
    // The links first: without them no packet meets a table that is half gone.
    let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    names.sort_by_key(|name| (guards::is_guard(name), !is_link(name)));
    let mut removed = Vec::new();
    for name in names {
        removed.push(guards::remove_name(&name)?);
    }
    let whole = !removed.contains(&false);
    if whole {
        std::fs::remove_dir(folder).context(what)?;
    }
    Ok(TakenDown {
        something: whole || removed.contains(&true),
        whole,
    })
}

/// Empties the table of slots: programs that were lent to send by have the tables as long as somebody has them, and would go by
/// what stands there.
fn forget_slots(folder: &Path) {
    let Ok(slots) = Map::open_pinned(&folder.join(SPECS.slots.name)) else {
        return;
    };
    // Of another version, perhaps: as many as it has, of its own size.
    let zeros = vec![0; slots.user_value_size()];
    let mut numbers = 0_u32..;
    while numbers
        .next()
        .is_some_and(|n| slots.update(&n.to_ne_bytes(), &zeros).is_ok())
    {}
}

/// Where the kernel has no tcx links, what the host sends is looked at by a filter, which has no name. Those of slots go with
/// the slots' pairs, and all with the interface.
fn remove_host_filter(folder: &Path) -> Result<()> {
    let name = folder.file_name().and_then(|n| n.to_str()).unwrap_or("");
    let here = format!("{}-", NetNs::current()?.inode()?);
    match name.strip_prefix(&here).and_then(|n| n.parse().ok()) {
        Some(ifindex) => Netlink::new()?.remove_filter(ifindex, TcxHook::Egress),
        None => Ok(()),
    }
}

fn is_link(name: &Path) -> bool {
    let name = name.file_name().and_then(|n| n.to_str()).unwrap_or("");
    ["in", "host", "ingress"].contains(&name) || name.starts_with("slot") && name.contains('-')
}

fn kind_of(spec: &MapSpec) -> Result<MapKind> {
    MapKind::from_number(spec.kind as u32)
        .ok_or_else(|| Error::new(format!("the map {} is of an unknown kind", spec.name)))
}

/// The maps of a gate, and whether an earlier daemon made them. What was left of an interface that is gone goes: numbers
/// of namespaces and interfaces are used again.
pub(super) fn maps(folder: &Path) -> Result<(Maps<Map>, bool)> {
    if is_orphan(folder)? {
        remove_folder(folder)?;
    }
    match find_maps(folder)? {
        Some(maps) => Ok((maps, true)),
        None => Ok((make_maps(folder)?, false)),
    }
}

/// Whether [`maps`] would find what an earlier daemon made, and this one can go on with.
pub(super) fn has_maps(folder: &Path) -> Result<bool> {
    Ok(!is_orphan(folder)? && find_maps(folder)?.is_some())
}

/// All maps of an earlier daemon, when they are what this one would make.
fn find_maps(folder: &Path) -> Result<Option<Maps<Map>>> {
    found(SPECS.try_map(|spec| -> Result<Map> {
        let map = Map::open_pinned(&folder.join(spec.name))?;
        let fits = map.is_like(kind_of(spec)?, spec.key_size, spec.value_size, spec.entries);
        fits.then_some(map)
            .ok_or_else(|| Error::new(format!("the map {} is of another version", spec.name)))
    }))
}

fn make_maps(folder: &Path) -> Result<Maps<Map>> {
    remove_folder(folder)?; // What another version left, or half of something.
    std::fs::create_dir_all(folder).context(|| format!("cannot make {}", folder.display()))?;
    SPECS.try_map(|spec| {
        let map = make_map(spec)?;
        map.pin(&folder.join(spec.name))?;
        Ok(map)
    })
}

/// A map without a name in the file system.
pub(super) fn make_map(spec: &MapSpec) -> Result<Map> {
    match Maps::inner(spec.name) {
        Some(inner) => Map::array_of_maps(spec.name, spec.entries, &mappable(inner)?),
        None => {
            let (key, value) = (spec.key_size, spec.value_size);
            Map::create(kind_of(spec)?, spec.name, key, value, spec.entries)
        }
    }
}

/// Memory that programs map.
pub(super) fn mappable(spec: &MapSpec) -> Result<Map> {
    Map::mappable_array(spec.name, spec.value_size, spec.entries)
}

/// The interface's XDP link: the one that is there, with our program in it, or a new one.
pub(super) fn attach_incoming(name: &Path, ifindex: u32, prog: &Prog) -> Result<(Link, XdpMode)> {
    let there = found(Link::open_pinned(name))?;
    if let Some(link) = there.filter(|link| link.ifindex() == ifindex) {
        link.update(prog)?;
        let mode = link.mode();
        return Ok((link, mode));
    }
    let _ = std::fs::remove_file(name);
    let native = Link::attach_xdp(ifindex, prog, XdpMode::Native);
    let link = native.or_else(|_| Link::attach_xdp(ifindex, prog, XdpMode::Generic))?;
    link.pin(name)?;
    let mode = link.mode();
    Ok((link, mode))
}

/// The tcx link of a name, if it is on the interface.
pub(super) fn find_tcx(name: &Path, ifindex: u32) -> Result<Option<TcxLink>> {
    let there = found(TcxLink::open_pinned(name))?;
    Ok(there.filter(|link| link.ifindex() == ifindex))
}

/// Puts a program at a hook of traffic control: in the tcx link of the name, which is made if it is not there, or in a filter
/// where the kernel has no such links (before Linux 6.6).
pub(super) fn attach_tc(name: &Path, ifindex: u32, prog: &Prog, hook: TcxHook) -> Result<()> {
    if let Some(link) = find_tcx(name, ifindex)? {
        return link.update(prog);
    }
    let _ = std::fs::remove_file(name);
    match TcxLink::attach(ifindex, prog, hook) {
        Ok(link) => link.pin(name),
        Err(error) if error.is(libc::EINVAL) => {
            Netlink::new()?.put_filter(ifindex, hook, prog.as_fd())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_looked_at_is_not_taken_for_gone() {
        for (errno, is_error) in [
            (libc::ENOENT, false),
            (libc::EINVAL, false),
            (libc::EMFILE, true),
            (libc::ENFILE, true),
            (libc::ENOMEM, true),
        ] {
            let failed = std::io::Error::from_raw_os_error(errno);
            let looked = found(Err::<(), _>(Error::io("cannot look", failed)));
            assert_eq!(looked.is_err(), is_error, "{errno}");
        }
        assert!(matches!(found(Ok(7)), Ok(Some(7))));
    }
}
