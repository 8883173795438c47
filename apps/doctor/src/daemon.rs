//! The daemon that lends parts of interfaces: whether it runs, what it serves, and what it would give to us.

use crate::check::{Check, remedy};
use exos::via::{self, control};
use exos_host::Result;
use exos_host::caps::{self, CapabilitySet};
use exos_host::netlink::LinkInfo;
use exos_program::status::{Status, TermsStatus};
use exos_xok::message::{Answer, InterfaceInfo, Request, VERSION};
use std::path::Path;

/// What a daemon says.
#[derive(Debug)]
pub(crate) struct Daemon {
    pid: u32,
    served: Vec<InterfaceInfo>,
    status: Status,
}

impl Daemon {
    /// The daemon's word on an interface of this namespace, when it serves it.
    pub(crate) fn terms(&self, link: &LinkInfo) -> Option<&TermsStatus> {
        // Another namespace may have an interface of the same name and index.
        let same = |i: &&InterfaceInfo| i.index == link.index && link.mac == Some(i.mac.0);
        let served = self.served.iter().find(same)?;
        self.terms_of(&served.name)
    }

    /// Whether a program of this user would get a part of any interface.
    pub(crate) fn lends(&self) -> bool {
        let mut all = self.status.asker.interfaces.iter();
        all.any(|terms| terms.mode.is_some())
    }

    fn terms_of(&self, name: &str) -> Option<&TermsStatus> {
        let mut all = self.status.asker.interfaces.iter();
        all.find(|terms| terms.interface == name)
    }
}

/// Whether a daemon listens where programs look for it, and its word on interfaces that are not `shown` by themselves.
pub(crate) fn examine(socket: &Path, shown: &[LinkInfo]) -> (Vec<Check>, Option<Daemon>) {
    if !via::is_there(socket) {
        return (vec![absent(socket)], None);
    }
    let daemon = match ask(socket) {
        Ok(daemon) => daemon,
        Err(error) => {
            let error = exos_program::with_options(error);
            let mend = remedy(&error, "start it again: exos daemon as root");
            let meaning = "programs of ordinary users get nothing from it";
            let check = Check::fail("daemon", error.sentence(), meaning, mend);
            return (vec![check], None);
        }
    };
    let mut checks = vec![present(socket, &daemon)];
    for served in &daemon.served {
        let is = |link: &LinkInfo| link.index == served.index && link.mac == Some(served.mac.0);
        if !shown.iter().any(is) {
            let terms = daemon.terms_of(&served.name);
            checks.extend(terms.map(|terms| lent(&format!("on {}: ", served.name), terms)));
        }
    }
    (checks, Some(daemon))
}

fn ask(socket: &Path) -> Result<Daemon> {
    let mut control = control::Control::connect(socket)?;
    let (answer, _) = control.ask(&Request::Hello { version: VERSION })?;
    let Answer::Welcome {
        pid, interfaces, ..
    } = answer
    else {
        return Err(exos_host::Error::new(
            "the daemon answers without a welcome",
        ));
    };
    Ok(Daemon {
        pid,
        served: interfaces,
        status: Status::parse(&control.report()?)?,
    })
}

fn absent(socket: &Path) -> Check {
    let what = format!("no daemon at {}", socket.display());
    if caps::has(CapabilitySet::NET_ADMIN) {
        let meaning =
            "with one (exos daemon) users without privilege get AF_XDP too; root needs none";
        return Check::ok("daemon", what, meaning);
    }
    Check::warn(
        "daemon",
        what,
        "a program without privilege gets AF_XDP from a daemon only",
        "have root run one: exos daemon --interface NAME --address ADDRESS/PREFIX --user YOU",
    )
}

fn present(socket: &Path, daemon: &Daemon) -> Check {
    let served = daemon.served.iter().map(|interface| {
        let addresses = interface.addresses.iter();
        let addresses: Vec<_> = addresses
            .map(|a| format!("{}/{}", a.ip, a.prefix))
            .collect();
        format!("{} ({})", interface.name, addresses.join(" "))
    });
    let served: Vec<_> = served.collect();
    let what = format!(
        "daemon at {}, process {}, protocol {VERSION}",
        socket.display(),
        daemon.pid
    );
    Check::ok("daemon", what, format!("it serves {}", served.join(", ")))
}

/// What a program of ours would get on an interface that it does not ask anything special of.
pub(crate) fn mode(link: &LinkInfo, daemon: Option<&Daemon>) -> Check {
    if let Some(terms) = daemon.and_then(|daemon| daemon.terms(link)) {
        return lent("", terms);
    }
    let name = &link.name;
    if is_privileged() {
        let what = format!("you get a queue of {name} (--link xdp:{name})");
        let meaning = "privileged, and no daemon serves it: the program has the interface's XDP program itself";
        return Check::ok("mode", what, meaning);
    }
    Check::warn(
        "mode",
        format!("you get nothing of {name}"),
        "without privilege a program gets a part of an interface from a daemon, and none serves this one",
        format!(
            "have root run exos daemon --interface {name}; else programs use a TAP device in a network of their own"
        ),
    )
}

/// Whether a program of this user attaches to interfaces by itself.
pub(crate) fn is_privileged() -> bool {
    caps::has(CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW | CapabilitySet::BPF)
}

fn lent(place: &str, terms: &TermsStatus) -> Check {
    match (terms.mode.as_deref(), terms.queue) {
        (Some("direct"), Some(queue)) => Check::ok(
            "mode",
            format!("{place}you get queue {queue} itself (direct)"),
            &terms.why,
        ),
        (Some(_), _) => Check::ok(
            "mode",
            format!("{place}you get an interface of your own (shared)"),
            &terms.why,
        ),
        (None, _) => Check::warn(
            "mode",
            format!("{place}you get nothing"),
            "the daemon would refuse",
            &terms.why,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mark;

    #[test]
    fn no_daemon_and_one_that_is_gone_are_told_apart() {
        let (checks, daemon) = examine(Path::new("/nowhere/xokd.sock"), &[]);
        assert!(daemon.is_none());
        assert!(
            checks[0].what.contains("no daemon at /nowhere"),
            "{checks:?}"
        );
        assert_ne!(checks[0].mark, Mark::Fail);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("xokd.sock");
        // Bound, and closed at once: nobody listens.
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a free name"));
        let (checks, _) = examine(&path, &[]);
        assert_eq!(checks[0].mark, Mark::Fail, "{checks:?}");
        assert!(checks[0].mend.is_some());
    }

    /// A user without privilege beside a daemon that lends: nothing has failed.
    #[test]
    fn what_takes_root_is_no_failure_where_the_daemon_does_it() {
        for (id, mark) in [("af-xdp", Mark::Warn), ("kernel", Mark::Fail)] {
            let mut check = Check::fail(id, "none", "needed", "run as root");
            check.leave_to_root();
            assert_eq!(check.mark, mark, "{check:?}");
        }
        let daemon = |mode: Option<&str>| {
            let mut status = Status::default();
            status.asker.interfaces = vec![TermsStatus {
                mode: mode.map(str::to_owned),
                ..TermsStatus::default()
            }];
            let served = Vec::new();
            Daemon {
                pid: 1,
                served,
                status,
            }
        };
        assert!(daemon(Some("shared")).lends() && !daemon(None).lends());
    }

    #[test]
    fn what_is_lent_is_said_with_the_reason() {
        let terms = |mode: Option<&str>, queue| TermsStatus {
            interface: "eth0".to_owned(),
            mode: mode.map(str::to_owned),
            queue,
            why: "because".to_owned(),
        };
        let direct = lent("", &terms(Some("direct"), Some(3)));
        assert!(direct.what.contains("queue 3") && direct.meaning == "because");
        assert!(
            lent("on eth0: ", &terms(Some("shared"), None))
                .what
                .starts_with("on eth0: you get an")
        );
        let none = lent("", &terms(None, None));
        assert_eq!(
            (none.mark, none.mend.as_deref()),
            (Mark::Warn, Some("because"))
        );
    }
}
