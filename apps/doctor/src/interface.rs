//! What concerns one interface: its driver, queues, MTU, offloads, and who else is on it.

use crate::check::{About, Check};
use exos_host::Result;
use exos_host::bpf::ProgInfo;
use exos_host::ethtool::{Ethtool, Feature, STOP_MERGING};
use exos_host::kernel::{self, Version};
use exos_host::netlink::{LinkInfo, XdpFeatures, XdpInfo, XdpMode};
use schemars::JsonSchema;
use serde::Serialize;

/// Packets longer than this do not fit one page beside what XDP keeps in it (headroom of 256 bytes and
/// `skb_shared_info` of 320 in a page of 4096, less the Ethernet header with a VLAN tag); more needs fragments.
const MTU_OF_ONE_PAGE: u32 = 4096 - 256 - 320 - 18;

/// Drivers with native XDP and redirection since before 6.1, for kernels that cannot be asked (before 6.3).
/// What is newer there, or does not redirect, is left out: gve (6.4), vmxnet3 (6.6), ixgbevf (no redirection).
const NATIVE_DRIVERS: [&str; 14] = [
    "veth",
    "virtio_net",
    "tun",
    "bonding",
    "ixgbe",
    "i40e",
    "ice",
    "igb",
    "igc",
    "mlx4_en",
    "mlx5_core",
    "ena",
    "hv_netvsc",
    "bnxt_en",
];

/// What was found about an interface.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InterfaceReport {
    /// Its name.
    pub name: String,
    /// Its driver, where it says.
    pub driver: Option<String>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Queues in use that receive.
    pub rx_queues: u32,
    /// The findings.
    pub checks: Vec<Check>,
}

/// What the checks of an interface look at.
struct Facts<'a> {
    link: &'a LinkInfo,
    driver: Option<String>,
    xdp: Option<XdpFeatures>,
    queues: u32,
    features: Vec<Feature>,
}

impl Facts<'_> {
    fn is_on(&self, feature: &str) -> bool {
        self.features.iter().any(|f| f.name == feature && f.active)
    }

    /// The device merges packets, no setting ends that, and the driver refuses native XDP meanwhile.
    fn merges_for_good(&self) -> bool {
        self.features.iter().any(Feature::merges_for_good)
    }

    fn is_native(&self) -> bool {
        !self.merges_for_good() && !self.is_bond() && self.driver_is_native()
    }

    fn is_bond(&self) -> bool {
        self.link.kind.as_deref() == Some("bond")
    }

    fn driver_is_native(&self) -> bool {
        match (&self.xdp, &self.driver) {
            (Some(xdp), _) => xdp.is_native() && xdp.redirects(),
            (None, Some(driver)) => NATIVE_DRIVERS.contains(&driver.as_str()),
            (None, None) => false,
        }
    }
}

/// Examines one interface of this network namespace.
pub fn examine(link: &LinkInfo) -> Result<InterfaceReport> {
    let ethtool = Ethtool::new()?;
    let facts = Facts {
        link,
        driver: ethtool.driver(&link.name).ok(),
        xdp: XdpFeatures::of(link.index).unwrap_or(None),
        queues: ethtool.receive_queues(link),
        features: ethtool.features(&link.name).unwrap_or_default(),
    };
    let checks = [
        state,
        ethernet,
        native,
        zero_copy,
        live_frames,
        queues,
        mtu,
        receive_offload,
        checksums,
        vlan,
        other_program,
    ];
    Ok(InterfaceReport {
        name: link.name.clone(),
        mtu: link.mtu,
        rx_queues: facts.queues,
        checks: checks.iter().filter_map(|check| check(&facts)).collect(),
        driver: facts.driver,
    })
}

fn state(facts: &Facts<'_>) -> Option<Check> {
    let name = &facts.link.name;
    let about = About("state", "packets flow only when it is up and has a carrier");
    Some(match (facts.link.up, facts.link.running) {
        (true, true) => about.ok("up, with carrier"),
        (true, false) => about.warn(
            "up, no carrier",
            "plug in the cable, or bring its other end up",
        ),
        (false, _) => about.warn("down", format!("bring it up: ip link set {name} up")),
    })
}

fn ethernet(facts: &Facts<'_>) -> Option<Check> {
    if facts.link.mac.is_some() && !facts.link.loopback {
        return None;
    }
    Some(Check::fail(
        "ethernet",
        "not an Ethernet interface",
        "our stack speaks Ethernet",
        "choose another interface, or `exos lab up`",
    ))
}

fn native(facts: &Facts<'_>) -> Option<Check> {
    let driver = facts.driver.as_deref().unwrap_or("unknown");
    let what = format!("driver {driver}, ");
    if facts.is_native() {
        let meaning = "filters run in the driver, before the kernel makes a socket buffer";
        return Some(Check::ok("native-xdp", what + "native XDP", meaning));
    }
    if facts.is_bond() {
        let meaning = "in its driver programs see packets of its members, which rings of the bond do not get: filters run on socket buffers (generic XDP)";
        let mend = "name a member, if one is enough, or go on with generic XDP";
        let what = what + "no native XDP for programs";
        return Some(Check::warn("native-xdp", what, meaning, mend));
    }
    if facts.merges_for_good() {
        let meaning = "the device merges packets, and the driver refuses native XDP meanwhile: filters run on socket buffers (generic XDP)";
        let what = what + "no native XDP here";
        return Some(Check::warn("native-xdp", what, meaning, STOP_MERGING));
    }
    let meaning = "filters run on socket buffers (generic XDP): everything works, with less gain";
    Some(Check::warn(
        "native-xdp",
        what + "no native XDP",
        meaning,
        "use a network card whose driver has it, or go on with generic XDP",
    ))
}

fn zero_copy(facts: &Facts<'_>) -> Option<Check> {
    if facts.xdp?.zero_copy() {
        return Some(Check::ok(
            "zero-copy",
            "zero-copy AF_XDP",
            "the device reads and writes a program's memory itself",
        ));
    }
    Some(Check::ok(
        "zero-copy",
        "copy-mode AF_XDP",
        "the kernel copies each packet once; normal for virtual interfaces",
    ))
}

/// Whether many frames at once may leave by a redirection: not where the device reads a program's memory itself, nor where the
/// kernel is too old to say.
fn live_frames(facts: &Facts<'_>) -> Option<Check> {
    let zero_copy = |xdp: &XdpFeatures| facts.is_native() && xdp.zero_copy();
    let xdp = facts.xdp.filter(|xdp| !zero_copy(xdp))?;
    let id = "live-frames";
    if xdp.is_target() {
        let meaning = "many frames at once may leave in live frame mode";
        return Some(Check::ok(id, "takes redirected frames", meaning));
    }
    let no = "takes no redirected frames";
    let (what, meaning) = match facts.driver.as_deref() {
        Some("veth") => (
            no,
            "frames leave by AF_XDP's ring, until the other end has an XDP program or GRO",
        ),
        // virtio_net and others make room for them when a program comes.
        _ if facts.is_native() && facts.link.xdp.is_none() => (
            "takes no redirected frames yet",
            "most drivers do while an XDP program is on the interface, such as ours: then many at once leave in live frame mode",
        ),
        _ => (no, "frames leave by AF_XDP's ring, one by one"),
    };
    Some(Check::ok(id, what, meaning))
}

/// A ring sees only the packets of its own queue, so a program has a ring on each queue that is in use.
fn queues(facts: &Facts<'_>) -> Option<Check> {
    let n = facts.queues;
    Some(if n <= 1 {
        let meaning = "every packet comes in where the program's ring is";
        Check::ok("queues", "1 receive queue in use", meaning)
    } else {
        let what = format!("{n} receive queues in use");
        let meaning = format!("a program takes all of them, on one core or up to {n} (--cores)");
        Check::ok("queues", what, meaning)
    })
}

fn mtu(facts: &Facts<'_>) -> Option<Check> {
    let (mtu, name) = (facts.link.mtu, &facts.link.name);
    let what = format!("MTU {mtu}");
    if mtu <= MTU_OF_ONE_PAGE {
        return Some(Check::ok("mtu", what, "a packet fits one buffer"));
    }
    let mend = format!("lower it: ip link set {name} mtu 1500");
    if facts.is_native() && facts.xdp.is_none_or(|xdp| !xdp.fragments()) {
        let meaning = format!("the driver refuses native XDP above about {MTU_OF_ONE_PAGE}");
        return Some(Check::fail("mtu", what, meaning, mend));
    }
    Some(Check::warn(
        "mtu",
        what,
        "packets may span several buffers, which costs more for each",
        mend,
    ))
}

/// The device merging packets: most drivers refuse native XDP then, and merged packets are longer than a frame.
fn receive_offload(facts: &Facts<'_>) -> Option<Check> {
    let name = &facts.link.name;
    let on = facts.features.iter().find(|feature| feature.merges());
    Some(match on {
        Some(feature) if feature.fixed => Check::warn(
            "receive-offload",
            format!("{} is on and cannot be changed", feature.name),
            merged(kernel::version().ok()),
            STOP_MERGING,
        ),
        Some(Feature { name: feature, .. }) => Check::warn(
            "receive-offload",
            format!("{feature} is on"),
            "the device merges packets before XDP sees them; many drivers refuse native XDP meanwhile",
            format!("turn it off: ethtool -K {name} {feature} off"),
        ),
        None => Check::ok(
            "receive-offload",
            "the device does not merge packets",
            "XDP sees each packet as it came",
        ),
    })
}

/// What becomes of packets that a device has merged, which are longer than the MTU.
fn merged(kernel: Option<Version>) -> &'static str {
    let takes_pieces = Version { major: 6, minor: 6 };
    if kernel.is_some_and(|kernel| kernel >= takes_pieces) {
        "programs take merged packets in pieces; `exos forward` refuses the card, and the daemon loses those that are longer than the MTU"
    } else {
        "merged packets are lost: uploads crawl (from Linux 6.6 on programs take them in pieces)"
    }
}

/// On virtual interfaces the other side's kernel leaves transport checksums to a device that is not there.
fn checksums(facts: &Facts<'_>) -> Option<Check> {
    if facts.driver.as_deref() != Some("veth") {
        return None;
    }
    let peer = facts.is_on("rx-checksum");
    let what = if peer {
        "packets may come without checksums"
    } else {
        "packets come with checksums"
    };
    let meaning = "a kernel on the other side of a veth may fill in only half of TCP and UDP checksums; we accept those on virtual links";
    Some(Check::ok("checksums", what, meaning))
}

fn vlan(facts: &Facts<'_>) -> Option<Check> {
    facts.is_on("rx-vlan-hw-parse").then(|| {
        let name = &facts.link.name;
        let meaning =
            "the device strips VLAN tags before XDP sees them: packets of all VLANs look untagged";
        let mend = format!("if this network has VLANs: ethtool -K {name} rxvlan off");
        Check::warn(
            "vlan",
            "VLAN tags are stripped by the device",
            meaning,
            mend,
        )
    })
}

fn other_program(facts: &Facts<'_>) -> Option<Check> {
    let (id, meaning) = ("xdp-program", "one XDP program has an interface at a time");
    let Some(xdp) = facts.link.xdp else {
        return Some(Check::ok(id, "no XDP program attached", meaning));
    };
    let who = ProgInfo::by_id(xdp.prog_id)
        .ok()
        .map(|p| p.name)
        .filter(|name| !name.is_empty());
    let who = who.map_or(String::new(), |name| format!(" ({name})"));
    let what = format!("{} XDP program {}{who} attached", place(xdp), xdp.prog_id);
    let name = &facts.link.name;
    let mend = format!(
        "stop the program that holds it, or detach it: ip link set {name} xdp off (also try xdpgeneric off)"
    );
    Some(Check::fail(id, what, meaning, mend))
}

/// The daemon's program on an interface that it serves is in nobody's way: programs ask the daemon.
pub(crate) fn belongs_to_daemon(report: &mut InterfaceReport) {
    let program = report.checks.iter_mut().find(|c| c.id == "xdp-program");
    if let Some(check) = program.filter(|check| check.mend.is_some()) {
        let what = format!("{}, the daemon's", check.what);
        *check = Check::ok(
            "xdp-program",
            what,
            "programs get their part of it from the daemon",
        );
    }
}

fn place(xdp: XdpInfo) -> &'static str {
    match xdp.mode {
        XdpMode::Native => "native",
        XdpMode::Generic => "generic",
        XdpMode::Hardware => "hardware",
        XdpMode::Several => "more than one",
    }
}
