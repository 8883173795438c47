//! `--clean`: what daemons have left behind in this network namespace, and what they left for interfaces that are gone.

use std::path::Path;
use std::process::ExitCode;

use exos_host::Error;
use exos_host::error::Result;
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;

use crate::gate;
use crate::interface::NAMESPACES;
use crate::server::Server;
use crate::state;

pub(super) fn run(socket: &Path) -> Result<ExitCode> {
    // Taking the socket shows that no daemon is there, and removes what one left of it.
    drop(Server::listen(socket)?);
    let inode = NetNs::current()?.inode()?;
    let mut removed = Vec::new();
    let mut note = |what: String, done: Result<()>| match done {
        Ok(()) => removed.push(what),
        Err(error) => eprintln!("{error}"),
    };
    for folder in gate::folders() {
        let name = folder
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or("")
            .to_owned();
        if name.starts_with(&format!("{inode}-")) || gate::is_orphan(&folder) {
            state::remove(&name);
            note(format!("gate {name}"), gate::remove_folder(&folder));
        }
    }
    for link in Netlink::new()?.links()? {
        let ours = link.name.starts_with("xok") && link.kind.as_deref() == Some("veth");
        if ours && link.name.contains('-') {
            let netlink = Netlink::new()?;
            // The other end of a pair may have taken it along.
            let done = netlink
                .delete_link(link.index)
                .or_else(|e| gone(&netlink, &link.name, e));
            note(format!("interface {}", link.name), done);
        }
    }
    for name in NetNs::list()? {
        if name.starts_with(&format!("{NAMESPACES}-{inode}-")) {
            note(format!("namespace {name}"), NetNs::delete(&name).map(drop));
        }
    }
    match removed.is_empty() {
        true => println!("nothing was left"),
        false => removed.iter().for_each(|what| println!("removed {what}")),
    }
    Ok(ExitCode::SUCCESS)
}

fn gone(netlink: &Netlink, name: &str, error: Error) -> Result<()> {
    match netlink.find_link(name)? {
        None => Ok(()),
        Some(_) => Err(error),
    }
}
