//! `--clean`: what daemons have left behind in this network namespace, and what they left for interfaces that are gone.
//!
//! Everything is found by its name, which says whose it is: `INODE-IFINDEX`, the network namespace and the interface
//! (`exos_xokd::interface`). What a running daemon serves is locked, and left alone. Host ports that were held for
//! programs are sockets of the daemon, and end with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use exos_host::Error;
use exos_host::bpf::Link;
use exos_host::error::Result;
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use exos_host::{say, warn};

use crate::gate::{self, TakenDown};
use crate::interface::{gate_name, gate_of_named};
use crate::server::Server;
use crate::slot::INNER;
use crate::state::{self, Lock};

/// Why a guard stays.
const GUARDED: &str = "for a process has the program that it guards; it goes with the next daemon or --clean after that has ended";

pub(super) fn run(socket: &Path) -> Result<ExitCode> {
    // Taking the socket shows that no daemon is there, and removes what one left of it.
    drop(Server::listen(socket)?);
    let mut clean = Clean {
        inode: NetNs::current()?.inode()?,
        locks: BTreeMap::new(),
        removed: Vec::new(),
        kept: Vec::new(),
        connected: BTreeSet::new(),
    };
    // First: as long as a pair is there, what comes out of it is to be checked.
    clean.links()?;
    clean.gates()?;
    clean.namespaces()?;
    clean.states()?;
    clean.removed.iter().for_each(|what| say!("removed {what}"));
    clean
        .kept
        .iter()
        .for_each(|what| say!("left alone: {what}"));
    if clean.removed.is_empty() && clean.kept.is_empty() {
        say!("nothing was left");
    }
    Ok(ExitCode::SUCCESS)
}

/// Gates of this namespace's interfaces that no daemon serves: an earlier one did, and its programs go on by what it
/// allowed. Another daemon may be about to take them over, so they are not taken down here.
pub(super) fn unserved() -> Result<Vec<String>> {
    let here = format!("{}-", NetNs::current()?.inode()?);
    let mut found = Vec::new();
    for folder in gate::folders() {
        let name = folder.file_name().and_then(|n| n.to_str()).unwrap_or("");
        let is_here = name.starts_with(&here) && !gate::is_orphan(&folder)?;
        if is_here && Lock::try_take(name)?.is_some() {
            found.push(name.to_owned());
        }
    }
    Ok(found)
}

struct Clean {
    inode: u64,
    /// Held until everything is done, so that no daemon begins with half of it; `None` where one runs.
    locks: BTreeMap<String, Option<Lock>>,
    removed: Vec<String>,
    kept: Vec<String>,
    /// Gates of which a slot's pair could not be taken away.
    connected: BTreeSet<String>,
}

impl Clean {
    /// Whether no daemon serves this interface now.
    fn is_free(&mut self, name: &str) -> Result<bool> {
        if !self.locks.contains_key(name) {
            let lock = Lock::try_take(name)?;
            if lock.is_none() {
                say!("left alone: {name}, which a running daemon serves");
            }
            self.locks.insert(name.to_owned(), lock);
        }
        Ok(self.locks[name].is_some())
    }

    /// Whether it is about an interface of this namespace.
    fn is_here(&self, name: &str) -> bool {
        name.starts_with(&format!("{}-", self.inode))
    }

    fn note(&mut self, what: String, done: Result<()>) {
        match done {
            Ok(()) => self.removed.push(what),
            Err(error) => warn!("{error}"),
        }
    }

    /// Of a gate that was taken down before there may be guards alone.
    fn note_gate(&mut self, name: &str, done: Result<TakenDown>) {
        match done {
            Ok(TakenDown { something, whole }) => {
                if something {
                    self.removed.push(format!("gate {name}"));
                }
                if !whole {
                    self.kept.push(format!("guard of {name}, {GUARDED}"));
                }
            }
            Err(error) => warn!("{error}"),
        }
    }

    fn gates(&mut self) -> Result<()> {
        for folder in gate::folders() {
            let name = folder.file_name().and_then(|n| n.to_str()).unwrap_or("");
            let is_ours = self.is_here(name) || gate::is_orphan(&folder)?;
            if is_ours && !self.connected.contains(name) && self.is_free(name)? {
                // Dropped when the gate is gone: it puts back what the interface did before.
                let _link = Link::open_pinned(&folder.join("in"));
                self.note_gate(name, gate::remove_folder(&folder));
            }
        }
        Ok(())
    }

    /// Our ends of the slots' pairs.
    fn links(&mut self) -> Result<()> {
        let netlink = Netlink::new()?;
        for link in netlink.links()? {
            let of = link
                .name
                .strip_prefix("xok")
                .and_then(|n| n.split_once('-'));
            let of = of.and_then(|(ifindex, _)| ifindex.parse().ok());
            let (Some(of), Some("veth")) = (of, link.kind.as_deref()) else {
                continue;
            };
            let gate = gate_name(self.inode, of);
            if self.is_free(&gate)? {
                // The other end of a pair may have taken it along.
                let done = netlink.delete_link(link.index);
                let done = done.or_else(|e| gone(&netlink, &link.name, e));
                if done.is_err() {
                    self.connected.insert(gate);
                }
                self.note(format!("interface {}", link.name), done);
            }
        }
        Ok(())
    }

    /// The slots' namespaces, as far as earlier versions named them: of interfaces here, and those that have lost their end
    /// of the pair with the other.
    fn namespaces(&mut self) -> Result<()> {
        for name in NetNs::list_with_leavings()? {
            let Some(of) = gate_of_named(&name) else {
                continue;
            };
            if (self.is_here(of) || is_empty(&name)) && self.is_free(of)? {
                self.note(format!("namespace {name}"), NetNs::delete(&name).map(drop));
            }
        }
        Ok(())
    }

    /// State files of gates that are gone: those of interfaces elsewhere that still have one are not ours to judge.
    fn states(&mut self) -> Result<()> {
        let gates = gate::folders();
        let has_gate = |name: &str| gates.iter().any(|folder| folder.ends_with(name));
        for name in state::names() {
            if (self.is_here(&name) || !has_gate(&name)) && self.is_free(&name)? {
                state::remove(&name);
            }
        }
        Ok(())
    }
}

/// True for a slot's namespace without the slot's interface, and for a name without a namespace.
fn is_empty(name: &str) -> bool {
    if matches!(NetNs::find(name), Ok(None)) {
        return true;
    }
    let links = NetNs::open(name).and_then(|ns| ns.netlink()?.links());
    links.is_ok_and(|links| links.iter().all(|link| link.name != INNER))
}

fn gone(netlink: &Netlink, name: &str, error: Error) -> Result<()> {
    match netlink.find_link(name)? {
        None => Ok(()),
        Some(_) => Err(error),
    }
}
