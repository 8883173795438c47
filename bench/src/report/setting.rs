//! Where and how a session measured: what reports of all experiments with web servers begin with.

use crate::stage::web::ReceiveOn;
use schemars::JsonSchema;
use serde::Serialize;

/// The machine, the wire, the options, and who was there.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Setting {
    /// The kernel's release.
    pub kernel: String,
    /// What the exos program calls itself.
    pub exos: String,
    /// The congestion control that the kernel's TCP used.
    pub congestion_control: String,
    /// The wire's MTU in bytes.
    pub mtu: u32,
    /// Where an end's kernel processed the frames that came to it: `sender`: on the sender's core; `own`: on the end's own.
    pub receive_on: ReceiveOn,
    /// Connections that were kept busy.
    pub connections: u32,
    /// How often each cell was measured.
    pub runs: u32,
    /// How long one measurement was meant to last, in seconds; by wrk, ab and httperf in whole ones.
    pub duration_secs: f64,
    /// The servers, in the order of the results.
    pub servers: Vec<Named>,
    /// Who was asked for and is not there, a sentence each.
    pub left_out: Vec<String>,
    /// What distorts the numbers, a sentence each.
    pub notes: Vec<String>,
}

/// A server or a load generator, and what it calls itself.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Named {
    /// Its name in results.
    pub name: String,
    /// What it calls itself.
    pub version: String,
}

impl Named {
    /// All of a list of them with their versions.
    pub(crate) fn all(list: &[(impl ToString, String)]) -> Vec<Self> {
        let named = |(who, version): &(_, String)| Self {
            name: ToString::to_string(who),
            version: version.clone(),
        };
        list.iter().map(named).collect()
    }

    /// Names with versions, for people.
    pub(crate) fn lines(list: &[Self]) -> Vec<String> {
        list.iter()
            .map(|n| format!("{}: {}", n.name, n.version))
            .collect()
    }
}

impl Setting {
    /// Where and how, in a line.
    pub(crate) fn line(&self) -> String {
        format!(
            "kernel {}, {}, MTU {}{}, {} connections; medians of {} runs of {} s",
            self.kernel,
            self.congestion_control,
            self.mtu,
            match self.receive_on {
                ReceiveOn::Sender => "",
                ReceiveOn::Own => ", each end's kernel receives on its own core",
            },
            self.connections,
            self.runs,
            self.duration_secs
        )
    }

    /// What was left out, and what distorts the numbers.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let left_out = self.left_out.iter().map(|who| format!("left out: {who}"));
        left_out.chain(notes(&self.notes)).collect()
    }

    /// The names of those that are in the results.
    pub(crate) fn series(&self) -> Vec<&str> {
        self.servers.iter().map(|s| s.name.as_str()).collect()
    }
}

/// What distorts the numbers, as remarks.
pub(crate) fn notes(notes: &[String]) -> impl Iterator<Item = String> {
    notes.iter().map(|note| format!("note: {note}"))
}

/// One for tests.
#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn setting(servers: &[(&str, String)]) -> Setting {
        Setting {
            kernel: "6.1.0".into(),
            exos: "exos 0.1.0".into(),
            congestion_control: "cubic".into(),
            mtu: 1500,
            receive_on: ReceiveOn::Sender,
            connections: 64,
            runs: 3,
            duration_secs: 2.0,
            servers: Named::all(servers),
            left_out: Vec::new(),
            notes: vec!["core 0 was busy".into()],
        }
    }

    #[test]
    fn says_where_and_how_and_what_is_missing() {
        let mut setting = setting(&[]);
        setting.left_out.push("ab is not installed".into());
        let line = "kernel 6.1.0, cubic, MTU 1500, 64 connections; medians of 3 runs of 2 s";
        assert_eq!(setting.line(), line);
        let remarks = ["left out: ab is not installed", "note: core 0 was busy"];
        assert_eq!(setting.remarks(), remarks);
    }
}
