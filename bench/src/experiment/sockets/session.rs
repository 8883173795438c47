//! A program and its client: started, watched, and compared.

use super::Cell;
use super::program::{Program, postgresql};
use super::requests::{Requests, Seen};
use crate::experiment::figure::{Figures, Goal};
use crate::stage::helper::read;
use crate::stage::process::find_program;
use crate::stage::{LabStage, Started};
use exos_host::{Error, Result};
use exos_lab::{INTERFACE, Side};
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

/// The kernel's address on side a.
const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 1);
/// Addresses that the kernel does not have: the program's there, and the client's on side b.
const OURS: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 10);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 99);

/// Connections of key-value stores' clients, and of pgbench.
const CONNECTIONS: [u32; 2] = [50, 20];

/// Whose sockets a program has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Kernel,
    Run,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Run => "exos-run",
        }
    }

    fn address(self) -> Ipv4Addr {
        match self {
            Self::Kernel => KERNEL,
            Self::Run => OURS,
        }
    }
}

pub(super) struct Session(pub LabStage);

impl std::ops::Deref for Session {
    type Target = LabStage;

    fn deref(&self) -> &LabStage {
        &self.0
    }
}

impl Session {
    /// A run of a cell: the kernel's sockets, then ours.
    pub fn compare(&self, cell: Cell, figures: &mut Figures) -> Result<()> {
        let (unit, goal) = match cell.program {
            Program::Redis | Program::Memcached => ("req/s", 2.0),
            Program::Postgresql => ("req/s", 1.3),
            Program::Iperf3 => ("Mbit/s", 1.0),
        };
        let kernel = self.load(cell, Way::Kernel, unit, figures)?;
        let ours = self.load(cell, Way::Run, unit, figures)?;
        let ratio = ours.per_sec / kernel.per_sec;
        figures.add_goal(format!("{cell}/rate"), "", Goal::AtLeast(goal), ratio);
        if let (Some([_, ours]), Some([_, kernel])) = (ours.took_us, kernel.took_us) {
            let name = format!("{cell}/p99");
            figures.add_goal(name, "", Goal::AtMost(0.5), ours / kernel);
        }
        Ok(())
    }

    /// Starts the program, has it loaded, and stops it.
    fn load(
        &self,
        cell: Cell,
        way: Way,
        unit: &'static str,
        figures: &mut Figures,
    ) -> Result<Seen> {
        let starter = match way {
            Way::Kernel => Vec::new(),
            Way::Run => self.exos_run(),
        };
        let words = cell.program.words(self, starter)?;
        let mut command = self.lab.command(Side::A, &words[0])?;
        command.args(&words[1..]).current_dir("/");
        let mut program = self.start(&cell.program.to_string(), command, self.cores[0])?;
        let client = match cell.program {
            Program::Redis | Program::Memcached => self.requests(cell, way)?,
            Program::Postgresql => self.pgbench(way, &mut program)?,
            Program::Iperf3 => self.iperf3(cell, way, &mut program)?,
        };
        let busy = self.busy_cores(self.seconds)?;
        let said = self.output_of(client, self.seconds)?;
        program.stop()?;
        let seen = match cell.program {
            Program::Redis | Program::Memcached => read::<Requests>(&said)?,
            Program::Postgresql => pgbench_said(&said)?,
            Program::Iperf3 => iperf3_said(&said)?,
        };
        let name = |what: &str| format!("{cell}/{}{what}", way.name());
        figures.add(name(""), unit, seen.per_sec);
        if let Some([_, p99_us]) = seen.took_us {
            figures.add(name("/p99"), "us", p99_us);
        }
        for (side, busy) in ["/busy", "/client-busy"].into_iter().zip(busy) {
            figures.add(name(side), "of a core", busy);
        }
        Ok(seen)
    }

    /// What starts a program by `exos run`.
    fn exos_run(&self) -> Vec<OsString> {
        let (link, address) = (format!("xdp:{INTERFACE}"), format!("{OURS}/24"));
        let words = [
            "run",
            "--via",
            "none",
            "--link",
            &link,
            "--address",
            &address,
            "--",
        ];
        let mut all = vec![self.program.clone().into_os_string()];
        all.extend(words.map(OsString::from));
        all
    }

    fn requests(&self, cell: Cell, way: Way) -> Result<Started> {
        let [first, then] = cell.program.exchanges(cell.job);
        let requests = Requests {
            to: SocketAddr::from((way.address(), cell.program.port())),
            from: CLIENT.into(),
            connections: CONNECTIONS[0],
            gathers: false,
            seconds: self.seconds,
            first,
            then,
        };
        Ok(self.helper(Side::B, &requests)?.started)
    }

    fn pgbench(&self, way: Way, server: &mut Started) -> Result<Started> {
        let address = way.address().to_string();
        let pgbench = postgresql("pgbench")?;
        let client = |arguments: &[&str]| -> Result<Command> {
            let mut command = self.lab.command(Side::B, &pgbench)?;
            command
                .args(["-h", &address, "-U", "postgres"])
                .args(arguments)
                .arg("postgres");
            Ok(command)
        };
        // It fills its tables, once there is somebody to do that.
        let fills = || {
            client(&["-i", "-q"])
                .is_ok_and(|mut fill| fill.output().is_ok_and(|o| o.status.success()))
        };
        self.await_true(server, fills)?;
        let seconds = self.seconds.to_string();
        let [_, clients] = CONNECTIONS.map(|count| count.to_string());
        self.start(
            "pgbench",
            client(&["-n", "-S", "-c", &clients, "-T", &seconds])?,
            self.cores[1],
        )
    }

    fn iperf3(&self, cell: Cell, way: Way, server: &mut Started) -> Result<Started> {
        self.await_said(server, "listening")?;
        let mut command = self
            .lab
            .command(Side::B, find_program("iperf3", "iperf3")?)?;
        let (address, seconds) = (way.address().to_string(), self.seconds.to_string());
        command.args(["-J", "-c", &address, "-t", &seconds]);
        command.args((cell.job == "sends").then_some("-R"));
        self.start("iperf3", command, self.cores[1])
    }
}

/// Of `tps = 32700.1 (without initial connection time)`.
fn pgbench_said(said: &str) -> Result<Seen> {
    let mut lines = said.lines().filter_map(|line| line.strip_prefix("tps = "));
    let rate = lines.find_map(|line| line.split(' ').next()?.parse().ok());
    let per_sec =
        rate.ok_or_else(|| Error::new(format!("pgbench did not say its rate: {said}")))?;
    Ok(Seen {
        per_sec,
        took_us: None,
    })
}

/// Of iperf3's JSON: what has arrived, in Mbit/s.
fn iperf3_said(said: &str) -> Result<Seen> {
    let json: serde_json::Value = serde_json::from_str(said).unwrap_or_default();
    let rate = json["end"]["sum_received"]["bits_per_second"].as_f64();
    let rate = rate.ok_or_else(|| Error::new(format!("iperf3 did not say its rate: {said}")))?;
    Ok(Seen {
        per_sec: rate / 1e6,
        took_us: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_say() {
        let said = "latency average = 0.6 ms\ntps = 32700.5 (without initial connection time)\n";
        assert_eq!(pgbench_said(said).expect("it is there").per_sec, 32700.5);
        assert!(pgbench_said("FATAL: no").is_err());
        let said = r#"{"end": {"sum_received": {"bits_per_second": 2e9}}}"#;
        assert_eq!(iperf3_said(said).expect("it is there").per_sec, 2000.0);
        assert!(iperf3_said(r#"{"error": "unable to connect"}"#).is_err());
    }
}
