//! What a lab is called and how it shall be: names, sides, addresses, the kind of wire.

use crate::emulator::Emulation;
use exos_host::{Error, Result};
use serde::Serialize;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The name of the interface at each end of the wire.
pub const INTERFACE: &str = "wire";

/// Longest name of a lab. Keeps the names of namespaces short enough to read in a table; the file system would
/// take more.
const NAME_LEN: usize = 32;

/// Smallest MTU: IPv6 needs 1280 on every link (RFC 8200 §5).
const MTU_MIN: u32 = 1280;
/// Most queues at an end: as many as a program on AF_XDP opens.
const QUEUES_MAX: u32 = 64;
/// Largest MTU: an IP packet has no more than 65535 bytes (RFC 791 §3.1).
const MTU_MAX: u32 = 65535;

/// One of the two namespaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, schemars::JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// 10.10.0.1 and fd10::1, by convention the server.
    A,
    /// 10.10.0.2 and fd10::2, by convention the client.
    B,
}

impl Side {
    /// Both, in order.
    pub const BOTH: [Side; 2] = [Side::A, Side::B];

    /// The namespace of this side of a lab, as `ip netns` lists it.
    pub fn namespace(self, lab: &str) -> String {
        format!("exos-{lab}-{self}")
    }

    /// In the namespace in the middle of an emulated wire, the interface that leads to this side.
    pub(crate) fn middle_interface(self) -> &'static str {
        match self {
            Side::A => "a",
            Side::B => "b",
        }
    }

    /// The addresses of this side with their prefix lengths: IPv4, then IPv6.
    pub fn addresses(self) -> [(IpAddr, u8); 2] {
        let last = match self {
            Side::A => 1,
            Side::B => 2,
        };
        let v6 = Ipv6Addr::new(0xfd10, 0, 0, 0, 0, 0, 0, last.into());
        [(Ipv4Addr::new(10, 10, 0, last).into(), 24), (v6.into(), 64)]
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Side::A => "a",
            Side::B => "b",
        })
    }
}

/// The namespace in which the emulator of an emulated wire runs, as `ip netns` lists it.
pub fn middle_namespace(lab: &str) -> String {
    format!("exos-{lab}-wire")
}

/// What the kernel may do to packets on their way over the wire.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, schemars::JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum WireKind {
    /// No segmentation, checksum or receive offloads: packets look as on a real wire.
    #[default]
    Plain,
    /// The kernel's defaults: large packets cross in one piece, checksums are left out.
    Offload,
}

impl fmt::Display for WireKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            WireKind::Plain => "plain",
            WireKind::Offload => "offload",
        })
    }
}

/// How a lab shall be.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Its name.
    pub name: String,
    /// The kind of wire.
    pub wire: WireKind,
    /// The longest IP packet on the wire, in bytes.
    pub mtu: u32,
    /// Queues of the interface at each end. With more than one, a program that wants all that comes opens each.
    pub queues: u32,
    /// The cores on which the kernels of side a and of side b process what comes to them; `None`: on that of the sender.
    pub receive_cores: Option<[usize; 2]>,
    /// What happens to frames on their way; `None`: the two sides are joined directly.
    pub emulation: Option<Emulation>,
}

impl Default for Settings {
    fn default() -> Self {
        Self::named("lab")
    }
}

impl Settings {
    /// A plain wire of 1500 bytes under this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            wire: WireKind::Plain,
            mtu: 1500,
            queues: 1,
            receive_cores: None,
            emulation: None,
        }
    }

    /// Says what is wrong with the settings before anything is made.
    pub fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        if !(MTU_MIN..=MTU_MAX).contains(&self.mtu) {
            return Err(
                Error::new(format!("the wire cannot have an MTU of {}", self.mtu)).mend(format!(
                    "choose one from {MTU_MIN} (IPv6 needs that much) to {MTU_MAX}"
                )),
            );
        }
        if !(1..=QUEUES_MAX).contains(&self.queues) {
            return Err(
                Error::new(format!("the wire cannot have {} queues", self.queues))
                    .mend(format!("choose from 1 to {QUEUES_MAX}")),
            );
        }
        let there = exos_host::affinity::allowed()?;
        let cores = self.receive_cores.iter().flatten();
        if let Some(absent) = cores.copied().find(|core| !there.contains(core)) {
            return Err(
                Error::new(format!("there is no core {absent} to receive on"))
                    .mend(format!("choose two of {there:?}")),
            );
        }
        let Some(emulation) = &self.emulation else {
            return Ok(());
        };
        if self.queues > 1 {
            return Err(Error::new(
                "an emulated wire has one queue: the emulator keeps frames in the order in which they came",
            )
            .mend("leave out --queues, or the emulation"));
        }
        if self.wire == WireKind::Offload {
            return Err(Error::new(
                "an offload wire cannot be emulated: packets of 64 KB without checksums are no frames that a \
                 wire could delay or lose one by one",
            )
            .mend("use the plain wire, or no emulation"));
        }
        emulation.conditions.check()
    }
}

/// Says what is wrong with the name of a lab.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_LEN || !name.chars().all(good) || name.starts_with('-')
    {
        return Err(
            Error::new(format!("{name:?} cannot be the name of a lab")).mend(format!(
                "use up to {NAME_LEN} letters, digits, hyphens and underscores"
            )),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::Conditions;

    #[test]
    fn names_and_mtus_are_checked_before_anything_is_made() {
        for (name, mtu, good) in [
            ("lab", 1500, true),
            ("my_lab-2", 1280, true),
            ("lab", 65535, true),
            ("", 1500, false),
            ("-x", 1500, false),
            ("../etc", 1500, false),
            ("with space", 1500, false),
            ("a-name-of-more-than-thirty-two-letters", 1500, false),
            ("lab", 1279, false),
            ("lab", 65536, false),
        ] {
            let settings = Settings {
                mtu,
                ..Settings::named(name)
            };
            assert_eq!(settings.check().is_ok(), good, "{name:?} {mtu}");
        }
    }

    #[test]
    fn queues_are_for_wires_that_nobody_emulates() {
        let emulation = Some(Emulation {
            conditions: Conditions::default(),
            seed: 1,
            core: None,
        });
        for (queues, emulation, good) in [
            (1, None, true),
            (64, None, true),
            (0, None, false),
            (65, None, false),
            (1, emulation.clone(), true),
            (2, emulation, false),
        ] {
            let settings = Settings {
                queues,
                emulation,
                ..Settings::named("lab")
            };
            assert_eq!(settings.check().is_ok(), good, "{queues}");
        }
    }

    #[test]
    fn sides_have_the_documented_addresses() {
        let text = |side: Side| {
            side.addresses()
                .map(|(ip, prefix)| format!("{ip}/{prefix}"))
        };
        assert_eq!(text(Side::A), ["10.10.0.1/24", "fd10::1/64"]);
        assert_eq!(text(Side::B), ["10.10.0.2/24", "fd10::2/64"]);
        assert_eq!(Side::B.namespace("lab"), "exos-lab-b");
    }
}
