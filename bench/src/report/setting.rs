//! Where and how a session measured: what reports of all experiments with web servers begin with.

use exos_program::html::escape;
use serde::Serialize;

/// The machine, the wire, the options, and who was there.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// The kernel's release.
    pub kernel: String,
    /// What the exos program calls itself.
    pub exos: String,
    /// The congestion control that the kernel's TCP used.
    pub congestion_control: String,
    /// The wire's MTU in bytes.
    pub mtu: u32,
    /// Connections that were kept busy.
    pub connections: u32,
    /// How often each cell was measured.
    pub runs: u32,
    /// How long one measurement was meant to last, in seconds.
    pub duration_secs: u32,
    /// The servers, in the order of the results.
    pub servers: Vec<Named>,
    /// Who was asked for and is not there, a sentence each.
    pub left_out: Vec<String>,
    /// What distorts the numbers, a sentence each.
    pub notes: Vec<String>,
}

/// A server or a load generator, and what it calls itself.
#[derive(Clone, Debug, Serialize)]
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
}

impl Setting {
    /// The first line of tables.
    pub(crate) fn title(&self, what: &str) -> String {
        let (kernel, control) = (&self.kernel, &self.congestion_control);
        let (mtu, connections) = (self.mtu, self.connections);
        let (runs, seconds) = (self.runs, self.duration_secs);
        format!(
            "{what}, kernel {kernel}, MTU {mtu}, {control}, {connections} connections; medians of {runs} runs of {seconds} s"
        )
    }

    /// The last lines of tables.
    pub(crate) fn remarks(&self) -> impl Iterator<Item = String> {
        let left_out = self.left_out.iter().map(|who| format!("left out: {who}"));
        left_out.chain(self.notes.iter().map(|note| format!("note: {note}")))
    }

    /// The first paragraphs of pages.
    pub(crate) fn html(&self, versions: &[String]) -> String {
        let mut lines = vec![format!(
            "Kernel {}, {}, MTU {}; {} connections at a time; medians of {} runs of {} s; the server on one core, the \
             client on another of the same machine.",
            self.kernel,
            self.congestion_control,
            self.mtu,
            self.connections,
            self.runs,
            self.duration_secs
        )];
        lines.push(format!("{}.", versions.join("; ")));
        lines.extend(self.left_out.iter().map(|who| format!("Left out: {who}.")));
        lines.extend(self.notes.iter().map(|note| format!("Note: {note}.")));
        lines
            .iter()
            .map(|line| format!("<p>{}</p>\n", escape(line)))
            .collect()
    }
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
            connections: 64,
            runs: 3,
            duration_secs: 2,
            servers: Named::all(servers),
            left_out: Vec::new(),
            notes: vec!["core 0 was busy".into()],
        }
    }

    #[test]
    fn begins_tables_and_pages_and_ends_tables() {
        let mut setting = setting(&[]);
        setting.left_out.push("<ab> is not installed".into());
        let title = "HTTP, kernel 6.1.0, MTU 1500, cubic, 64 connections; medians of 3 runs of 2 s";
        assert_eq!(setting.title("HTTP"), title);
        let remarks: Vec<String> = setting.remarks().collect();
        assert_eq!(
            remarks,
            ["left out: <ab> is not installed", "note: core 0 was busy"]
        );
        let html = setting.html(&["wrk: 4".into()]);
        assert!(html.contains("<p>wrk: 4.</p>") && html.contains("&lt;ab&gt;"));
    }
}
