//! The capabilities of the calling thread, by name (capabilities(7)).

use crate::error::{Context as _, Error, Result};
pub use rustix::thread::CapabilitySet;

/// The capabilities that this project ever needs, with what each is needed for.
pub const NEEDED: [(CapabilitySet, &str, &str); 4] = [
    (
        CapabilitySet::NET_ADMIN,
        "CAP_NET_ADMIN",
        "attach XDP programs and change interfaces",
    ),
    (
        CapabilitySet::NET_RAW,
        "CAP_NET_RAW",
        "open AF_XDP and packet sockets",
    ),
    (
        CapabilitySet::BPF,
        "CAP_BPF",
        "load filter programs and their maps",
    ),
    (
        CapabilitySet::SYS_ADMIN,
        "CAP_SYS_ADMIN",
        "make and enter network namespaces (exos lab)",
    ),
];

/// The capabilities in effect for the calling thread.
pub fn effective() -> Result<CapabilitySet> {
    let sets = rustix::thread::capabilities(None)
        .context(|| "cannot read the capabilities of this process")?;
    Ok(sets.effective)
}

/// True when all of these are in effect. `CAP_SYS_ADMIN` stands in for `CAP_BPF`, as it does in the kernel.
pub fn has(wanted: CapabilitySet) -> bool {
    let Ok(mut held) = effective() else {
        return false;
    };
    if held.contains(CapabilitySet::SYS_ADMIN) {
        held |= CapabilitySet::BPF;
    }
    held.contains(wanted)
}

/// Says by name which of these is missing. `purpose` completes "... needed to".
pub fn require(wanted: CapabilitySet, purpose: &str) -> Result<()> {
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(c, ..)| wanted.contains(*c) && !has(*c))
        .map(|n| n.1)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" and ");
    Err(Error::new(format!("{names} needed to {purpose}")).mend("run it as root"))
}

/// Gives up all capabilities but these, for good: this thread and those that it starts cannot get them back, not
/// even by becoming another program. To be called while there is one thread.
pub fn keep_only(kept: CapabilitySet) -> Result<()> {
    let what = || "cannot give up capabilities";
    let held = rustix::thread::capabilities(None).context(what)?;
    let sets = rustix::thread::CapabilitySets {
        effective: held.effective & kept,
        permitted: held.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::clear_ambient_capability_set().context(what)?;
    rustix::thread::set_no_new_privs(true).context(what)?;
    rustix::thread::set_capabilities(None, sets).context(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_has_all_and_others_are_told_what_is_missing() {
        let all = NEEDED
            .iter()
            .fold(CapabilitySet::empty(), |set, n| set | n.0);
        match require(all, "test") {
            Ok(()) => assert!(has(all)),
            Err(e) => assert!(e.what.contains("CAP_") && e.mend.is_some(), "{e}"),
        }
        assert!(has(CapabilitySet::empty()));
    }
}
