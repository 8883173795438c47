//! What the daemon reports of itself, as values. The page of JSON in `docs/reference` is made of these types.
//!
//! A daemon may be older or newer than the program that asks: fields that are missing are `None` or
//! empty, and those that are not known are left out.

use std::collections::BTreeMap;
use std::path::Path;

use exos::Error;
use exos::via::control::Control;
use exos_xok::message::{Request, VERSION};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A connection with the daemon, for asking how it is.
#[derive(Debug)]
pub struct Daemon {
    control: Control,
}

impl Daemon {
    /// Connects, and says hello.
    ///
    /// # Errors
    /// There is no daemon; with what to do about it.
    pub fn connect(path: &Path) -> Result<Self, Error> {
        let mut control = Control::connect(path).map_err(|e| {
            e.mend(
                "start it as root (exos daemon --interface NAME), or name its socket with --xokd",
            )
        })?;
        control.ask(&Request::Hello { version: VERSION })?;
        Ok(Self { control })
    }

    /// Its report, as text.
    ///
    /// # Errors
    /// It has gone or does not answer: connect again.
    pub fn report(&mut self) -> Result<String, Error> {
        Ok(self.control.report()?)
    }
}

/// What the daemon tells everybody who may connect to it, and what `exos top --json` carries as `report`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(default)]
pub struct Status {
    /// `"exos.daemon.status/1"`.
    pub schema: String,
    /// The daemon's process.
    pub pid: Option<u32>,
    /// How long it has been running.
    pub uptime_ms: Option<u64>,
    /// When the report was made: nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: Option<u64>,
    /// Connections to its socket.
    pub connections: Option<u64>,
    /// What it did to connections, by name: those cut off, with the reason as the name, and requests refused as
    /// `refused_CODE`.
    pub counters: BTreeMap<String, u64>,
    /// The interfaces that it serves.
    pub interfaces: Vec<InterfaceStatus>,
    /// Each running dump.
    pub taps: Vec<TapStatus>,
    /// What anyone who asked for the report may.
    pub asker: AskerStatus,
}

/// What somebody may.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(default)]
pub struct AskerStatus {
    /// The user.
    pub uid: Option<u32>,
    /// By interface.
    pub interfaces: Vec<TermsStatus>,
}

/// What a program of somebody's that does not ask for a mode would get on an interface.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(default)]
pub struct TermsStatus {
    /// The interface.
    pub interface: String,
    /// `"shared"` or `"direct"`; `null` when it would be refused.
    pub mode: Option<String>,
    /// The queue that it would get; `null` unless direct.
    pub queue: Option<u32>,
    /// The rule of the policy, or what is in the way and what would mend it.
    pub why: String,
}

/// An interface that is served.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(default)]
pub struct InterfaceStatus {
    /// Its name.
    pub name: String,
    /// Its index.
    pub ifindex: u32,
    /// Its Ethernet address.
    pub mac: Option<String>,
    /// The longest IP packet.
    pub mtu: Option<u32>,
    /// What is divided between the slots; `null` when nothing is held back.
    pub rate_bits_per_sec: Option<u64>,
    /// What may be claimed, `ADDRESS/PREFIX` each: addresses of ours alone, and the host's own where they are shared.
    pub addresses: Vec<String>,
    /// What happened to packets that belong to no program: counters of [the gate](../internals/gate.md) by name.
    pub host: BTreeMap<String, u64>,
    /// Counters of the daemon's own stack that are not zero; `null` where it has none.
    pub daemon: Option<BTreeMap<String, u64>>,
    /// How many programs the kernel has verified for filters of programs since the daemon started.
    pub filters_verified: Option<u64>,
    /// What some process has of slots that are gone.
    pub leftovers: Vec<LeftoverStatus>,
    /// Grants that are kept for the successor of a program that has ended.
    pub awaited: Vec<AwaitedStatus>,
    /// Packets that were dropped meanwhile.
    pub awaited_dropped: Option<u64>,
    /// The programs on it.
    pub slots: Vec<SlotStatus>,
}

/// Sockets or memory of a slot that is gone.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(default)]
pub struct LeftoverStatus {
    /// Whose.
    pub uid: Option<u32>,
    /// The slot's packet memory.
    pub memory_bytes: Option<u64>,
}

/// A grant that is kept for a successor.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(default)]
pub struct AwaitedStatus {
    /// Its number.
    pub id: u32,
    /// What it covers.
    pub claim: String,
    /// The program that had it.
    pub program: String,
    /// Its process.
    pub pid: Option<u32>,
    /// Its user, whose programs may claim it.
    pub uid: Option<u32>,
    /// When it is nobody's.
    pub left_ms: Option<u64>,
}

/// A program with a part of an interface.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(default)]
pub struct SlotStatus {
    /// The slot's number on its interface.
    pub slot: u16,
    /// The program's name, of its own choosing.
    pub program: String,
    /// Its process.
    pub pid: Option<u32>,
    /// Its user.
    pub uid: Option<u32>,
    /// `"shared"`: an interface of its own; `"direct"`: a queue of the device.
    pub mode: Option<String>,
    /// That queue, counted from 0; `null` when shared.
    pub queue: Option<u32>,
    /// Its share of the link beside the others'.
    pub weight: Option<u64>,
    /// Never more than this; `null` without a bound.
    pub rate_max_bits_per_sec: Option<u64>,
    /// Its packet memory.
    pub memory_bytes: Option<u64>,
    /// When it attached: nanoseconds of CLOCK_MONOTONIC.
    pub since_ns: Option<u64>,
    /// False while the program has not come back to a daemon that was started again.
    pub attached: Option<bool>,
    /// The UDP ports whose datagrams, and the TCP port whose segments, its handlers in the kernel get first: `"udp 4000"`.
    pub handled_ports: Vec<String>,
    /// What it may receive and send from.
    pub grants: Vec<GrantStatus>,
    /// What happened to its packets: counters of the gate by name. They belong to the slot's number and go on when another
    /// program is given it: compare two reports.
    pub counters: BTreeMap<String, u64>,
}

/// A grant.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(default)]
pub struct GrantStatus {
    /// Its number.
    pub id: u32,
    /// What it covers: `"tcp 192.0.2.7:80"`, or `"filter TEXT"`.
    pub claim: String,
    /// How many slots hold it.
    pub holders: Option<u32>,
    /// This slot is the one that gets the packets, or one of those that share them.
    pub receives: Option<bool>,
    /// The holders share its packets: each flow is one slot's.
    pub shared: Option<bool>,
    /// This slot leaves new flows to the others that share them.
    pub retired: Option<bool>,
    /// For how long a successor is awaited when the program ends; `null` for not at all.
    pub successor_ms: Option<u64>,
}

/// Somebody who has copies of packets made.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(default)]
pub struct TapStatus {
    /// Its number.
    pub tap: u32,
    /// The filter, as its user wrote it.
    pub filter: String,
    /// The user who looks.
    pub uid: Option<u32>,
    /// Packets of all programs are copied.
    pub all: Option<bool>,
    /// Bytes that are copied of each packet.
    pub snap_len: Option<u32>,
    /// Copies made.
    pub copied: u64,
    /// Copies for which there was no room.
    pub lost: u64,
}

impl Status {
    /// Reads a report.
    ///
    /// # Errors
    /// It is no report.
    pub fn parse(text: &str) -> Result<Self, Error> {
        serde_json::from_str(text).map_err(|e| {
            Error::new(format!("the daemon's report is not understood: {e}"))
                .mend("use a daemon and a program of the same version of exos")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_another_version_is_read_as_far_as_known() {
        let status = Status::parse(
            r#"{"schema": "exos.daemon.status/1", "novelty": [1], "interfaces": [
                {"name": "eth0", "ifindex": 2, "slots": [
                    {"slot": 3, "program": "serve", "rings": null, "counters": {"rx_packets": 7}}]}]}"#,
        )
        .expect("a report");
        let interface = &status.interfaces[0];
        assert_eq!((interface.name.as_str(), interface.ifindex), ("eth0", 2));
        let slot = &interface.slots[0];
        assert_eq!(
            (slot.slot, slot.program.as_str(), slot.pid),
            (3, "serve", None)
        );
        assert_eq!(slot.counters["rx_packets"], 7);
        assert_eq!((status.uptime_ms, status.taps.len()), (None, 0));
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for text in [
            "",
            "7",
            r#"{"interfaces": 7}"#,
            r#"{"taps": [{"lost": -1}]}"#,
        ] {
            let error = Status::parse(text).expect_err(text);
            assert!(error.to_string().contains("same version of exos"));
        }
    }
}
