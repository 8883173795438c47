//! All that was found, and finding it.

use crate::check::{Check, Mark};
use crate::interface::{self, InterfaceReport};
use crate::{daemon, machine, modes, trial};
use exos_host::Result;
use exos_host::netlink::Netlink;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// All that was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// True when no check failed; the exit status is 0 then and 1 otherwise.
    pub ok: bool,
    /// True when the user has no privilege and the daemon gives its programs AF_XDP: what takes root is `"warn"` then, not
    /// `"fail"`.
    pub through_daemon: bool,
    /// What concerns the whole machine.
    pub machine: Vec<Check>,
    /// What concerns the daemon.
    pub daemon: Vec<Check>,
    /// Each interface that was asked for, or that is up.
    pub interfaces: Vec<InterfaceReport>,
}

/// Examines the machine, the daemon that listens at `socket`, and the given interfaces, or all that are up when none
/// is given.
pub fn examine(interfaces: &[String], socket: &Path) -> Result<Report> {
    let netlink = Netlink::new()?;
    let links = if interfaces.is_empty() {
        netlink
            .links()?
            .into_iter()
            .filter(|link| link.up && !link.loopback)
            .collect()
    } else {
        interfaces
            .iter()
            .map(|name| netlink.link_by_name(name))
            .collect::<Result<Vec<_>>>()?
    };
    let mut machine = machine::examine();
    machine.extend(modes::examine());
    machine.push(trial::live_frames());
    let (daemon, lender) = daemon::examine(socket, &links);
    let lends = lender.as_ref().is_some_and(daemon::Daemon::lends);
    let through_daemon = lends && !daemon::is_privileged();
    if through_daemon {
        machine.iter_mut().for_each(Check::leave_to_root);
    }
    let interfaces = links.iter().map(|link| {
        let mut report = interface::examine(link)?;
        if lender.as_ref().is_some_and(|l| l.terms(link).is_some()) {
            interface::belongs_to_daemon(&mut report);
        }
        report.checks.push(daemon::mode(link, lender.as_ref()));
        Ok(report)
    });
    let interfaces = interfaces.collect::<Result<Vec<_>>>()?;
    let all = machine
        .iter()
        .chain(&daemon)
        .chain(interfaces.iter().flat_map(|i| &i.checks));
    let ok = all.clone().all(|check| check.mark != Mark::Fail);
    Ok(Report {
        ok,
        through_daemon,
        machine,
        daemon,
        interfaces,
    })
}
