//! Who may do what with the daemon of these experiments.

use exos_lab::INTERFACE;
use std::net::Ipv4Addr;

/// A user with three times the weight of others, beside them.
pub(super) const HEAVY_UID: u32 = 65_501;
/// A user who may have 70 % of the link at most.
pub(super) const CAPPED_UID: u32 = 65_502;
/// What that is.
pub(super) const CAP: f64 = 0.7;

/// A user who may have the device's queue.
pub(super) const DIRECT_UID: u32 = 65_503;

/// The user whose programs are measured may claim everything, and is named: users whom no rule names have few grants
/// together. Some others have another weight, a cap, a queue of the device.
pub(super) fn policy(uid: u32, ours: Ipv4Addr, rate: Option<u64>) -> String {
    let line = rate.map_or(String::new(), |mbit| format!("rate = \"{mbit}mbit\"\n"));
    let cap = rate.map_or(1000, |mbit| (mbit as f64 * CAP) as u64);
    let rules = [
        format!("user = \"{uid}\"\n"),
        format!("user = \"{DIRECT_UID}\"\nmodes = [\"shared\", \"direct\"]\n"),
        format!("user = \"{HEAVY_UID}\"\nweight = 3\n"),
        format!("user = \"{CAPPED_UID}\"\nweight = 2\nrate_max = \"{cap}mbit\"\n"),
    ];
    let allow = rules.map(|rule| {
        format!(
            "[[allow]]\n{rule}ports = [\"1-65535\"]\nmemory_max = \"1GiB\"\nprograms_max = 64\n"
        )
    });
    format!(
        "[[interface]]\nname = \"{INTERFACE}\"\naddresses = [\"{ours}/24\"]\n{line}\n{}",
        allow.join("\n")
    )
}
