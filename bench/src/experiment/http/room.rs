//! The room that servers are loaded in: a lab for server and client, each on its core, and one load of one server.

use super::check::{check_answer, get};
use super::packets::Visited;
use super::server::{Serving, Setup};
use super::{Client, Connection, RoomArgs, Server, Size, wrk};
use crate::limits::{POLL_INTERVAL, START_TIMEOUT};
use crate::report::{Named, Setting};
use crate::stage::cpu::{self, CoreTime, ProcessTime};
use crate::stage::link;
use crate::stage::{Stage, Started, mac_of};
use exos_host::{Error, Result, kernel};
use exos_lab::{Guard, INTERFACE, Lab, Settings, Side, State, WireKind};
use serde_json::Value;
use std::time::{Duration, Instant};

/// A room, and how long and with how many connections at a time loads in it are made.
pub(crate) struct Room {
    pub stage: Stage,
    /// The lab's name.
    pub lab_name: String,
    pub connections: u32,
    pub seconds: u32,
    /// Who exos runs as where the daemon lends it a link.
    pub uid: u32,
}

impl std::ops::Deref for Room {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

/// What the processors did for one load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub seconds: f64,
    pub process: ProcessTime,
    pub server: CoreTime,
    pub client: CoreTime,
}

impl Room {
    pub fn new(stage: Stage, args: &RoomArgs) -> Self {
        Self {
            stage,
            lab_name: args.lab.clone(),
            connections: args.connections,
            seconds: args.duration(),
            uid: args.uid,
        }
    }

    /// Where and how it is measured, before anything was.
    pub fn setting(
        &self,
        lab: &Lab,
        args: &RoomArgs,
        servers: &[(Server, String)],
        left_out: &[String],
    ) -> Result<Setting> {
        Ok(Setting {
            kernel: kernel::release(),
            exos: self.version()?,
            // Of the kernel's TCP on the server's side.
            congestion_control: lab
                .netns(Side::A)
                .sysctl("net/ipv4/tcp_congestion_control")?,
            mtu: lab.link(Side::A)?.mtu,
            connections: args.connections,
            runs: args.runs(),
            duration_secs: args.duration(),
            servers: Named::all(servers),
            left_out: left_out.to_vec(),
            notes: Vec::new(),
        })
    }

    /// A lab of its own, prepared alike for all servers. Who still runs in one that was left behind would distort what
    /// is measured.
    pub fn lab(&self, wire: WireKind) -> Result<Guard> {
        self.lab_of(wire, 1)
    }

    /// A lab as [`Self::lab`] makes it, with this many queues at each end of the wire.
    pub fn lab_of(&self, wire: WireKind, queues: u32) -> Result<Guard> {
        let name = &self.lab_name;
        let left = exos_lab::status(name)?;
        let inside = left.sides.iter().flat_map(|s| &s.processes);
        let inside: Vec<String> = inside
            .map(|(pid, name)| format!("{name} ({pid})"))
            .collect();
        if left.state != State::Down && !inside.is_empty() {
            let who = inside.join(", ");
            return Err(
                Error::new(format!("programs still run in the lab {name}: {who}"))
                    .mend(format!("stop them, then `exos lab down --name {name}`")),
            );
        }
        let settings = Settings {
            queues,
            ..self.settings(wire)
        };
        let lab = exos_lab::up(&settings)?.0.guard();
        // Tens of thousands of connections a second from one address: all ports, and old ones used again.
        let (a, b) = (lab.netns(Side::A), lab.netns(Side::B));
        b.set_sysctl("net/ipv4/ip_local_port_range", "1024 65535")?;
        b.set_sysctl("net/ipv4/tcp_tw_reuse", "1")?;
        a.set_sysctl("net/core/somaxconn", "4096")?;
        a.set_sysctl("net/ipv4/tcp_max_syn_backlog", "4096")?;
        Ok(lab)
    }

    fn settings(&self, wire: WireKind) -> Settings {
        Settings {
            wire,
            ..Settings::named(&self.lab_name)
        }
    }

    /// Starts a server, and waits until it answers with the whole document and nothing else.
    pub fn serve(&self, lab: &Lab, setup: impl Into<Setup>, size: Size) -> Result<Serving<'_>> {
        let setup = setup.into();
        let server = setup.server;
        let mut serving = setup.start(self, lab)?;
        // As with our client: see `is_for`.
        let _receiving = (!server.is_for(Client::Wrk))
            .then(|| lab.netns(Side::B).run(|| link::pass_all(INTERFACE)))
            .transpose()?
            .transpose()?;
        let end = Instant::now() + START_TIMEOUT;
        let (address, document) = (server.address().into(), size.document());
        loop {
            self.go_on()?;
            serving.started.running.check()?;
            match lab.netns(Side::B).run(|| get(address, &document))? {
                Ok(answer) => {
                    check_answer(server, &answer, size)?;
                    return Ok(serving);
                }
                Err(_) if Instant::now() < end => std::thread::sleep(POLL_INTERVAL),
                Err(e) => return Err(Error::io(format!("{server} does not answer"), e)),
            }
        }
    }

    /// Ends a server, which has to leave the wire as it found it; what it told of itself, where it is ours.
    pub fn end(&self, wire: WireKind, server: Server, mut serving: Serving<'_>) -> Result<Value> {
        serving.started.running.check()?;
        let told = serving.started.statistics()?;
        if exos_lab::up(&self.settings(wire))?.1 != exos_lab::Outcome::Unchanged {
            self.note(format!(
                "{server} did not leave the wire as it was; it was repaired"
            ));
        }
        Ok(told)
    }

    /// Has wrk load a server.
    pub fn load(
        &self,
        lab: &Lab,
        (server, serving): (Server, &Serving<'_>),
        connection: Connection,
        size: Size,
    ) -> Result<(wrk::Measured, Used)> {
        let command = wrk::command(self, lab, server, connection, size)?;
        let before = self.times(serving)?;
        let client = self.start("wrk", command, self.cores[1])?;
        let output = self.said(client, self.seconds.into())?;
        let used = self.times(serving)?.since(&before);
        Ok((wrk::measured(&output, server, size)?, used))
    }

    /// Has our client visit a server, as these arguments say, and does something meanwhile.
    pub fn visit<T>(
        &self,
        lab: &Lab,
        (server, serving): (Server, &Serving<'_>),
        arguments: &[String],
        meanwhile: impl FnOnce() -> Result<T>,
    ) -> Result<(Visited, Used, T)> {
        let seconds = f64::from(self.seconds);
        let to = server.address().to_string();
        let common = ["visit", "--to", &to].map(str::to_owned);
        let client = self.packets(lab, Side::B, &[&common, arguments].concat())?;
        let before = self.times(serving)?;
        // Shorter than it measures: it began when we heard of it, or before.
        std::thread::sleep(Duration::from_secs_f64(0.9 * seconds));
        let used = self.times(serving)?.since(&before);
        let other = meanwhile()?;
        let visited: Visited = self.measured(client, seconds)?;
        if visited.requests == 0 {
            let errors = visited.errors;
            return Err(Error::new(format!(
                "{server} did not answer a single request under load ({errors:?})"
            )));
        }
        Ok((visited, used, other))
    }

    /// A program of packets on one side; returns when it measures.
    pub fn packets(&self, lab: &Lab, side: Side, arguments: &[String]) -> Result<Started> {
        let (other, core) = match side {
            Side::A => (Side::B, self.cores[0]),
            Side::B => (Side::A, self.cores[1]),
        };
        let mac = mac_of(lab, other)?;
        let ready = self.ready_file();
        let mut command = lab.command(side, self.program())?;
        command.args(["bench", "http-packets"]).args(arguments);
        command.args(["--mac", &mac.to_string()]);
        command.args(["--seconds", &self.seconds.to_string()]);
        command.arg("--ready").arg(&ready);
        let mut started = self.start("http-packets", command, core)?;
        self.await_true(&mut started, || ready.exists())?;
        Ok(started)
    }

    /// What the processors have done so far.
    pub fn times(&self, serving: &Serving<'_>) -> Result<Times> {
        Ok(Times {
            at: Instant::now(),
            process: cpu::of_family(serving.pid())?,
            server: cpu::of_core(self.cores[0])?,
            client: cpu::of_core(self.cores[1])?,
        })
    }
}

/// What the processors had done at a moment.
pub(crate) struct Times {
    at: Instant,
    process: ProcessTime,
    server: CoreTime,
    client: CoreTime,
}

impl Times {
    /// Since another.
    pub fn since(self, before: &Self) -> Used {
        Used {
            seconds: (self.at - before.at).as_secs_f64(),
            process: self.process - before.process,
            server: self.server - before.server,
            client: self.client - before.client,
        }
    }
}
