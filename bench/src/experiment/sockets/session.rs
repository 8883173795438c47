//! A program and its client: started, watched, and compared.

use super::folder::{Folder, PEER};
use super::job::{Job, Measured, TOOK};
use super::requests::{Requests, Seen, Store};
use crate::experiment::figure::{Figures, Goal};
use crate::stage::helper::read;
use crate::stage::{LabStage, Started};
use exos_host::Result;
use exos_lab::{INTERFACE, Side};
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

/// The kernel's address on side a.
const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 1);
/// Addresses that the kernel does not have: the program's on side a, and that of clients of ours on side b.
const OURS: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 10);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 99);

/// Connections of key-value stores' clients.
const CONNECTIONS: u32 = 50;

/// How often a client is asked until it has done something in its time: on a machine that does much beside, pgbench's 20 connections alone
/// may take it all.
const ATTEMPTS: usize = 3;

/// What succeeds once what runs beside a job serves.
const BESIDE_READY: &str = "exec 3<>/dev/tcp/10.10.0.2/8000";

/// What `exos run` needs as another user for an interface of its own.
const CAPABILITIES: &str = "+net_admin,+net_raw,+sys_admin,+bpf,+perfmon,+sys_ptrace,+ipc_lock";

/// Whose sockets a program has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Kernel,
    Run,
}

/// A job that is done in one of the ways, and where the server is.
#[derive(Clone, Copy)]
struct Turn<'j> {
    job: &'j Job,
    way: Way,
    host: Ipv4Addr,
}

pub(super) struct Session {
    pub stage: LabStage,
    pub folder: Folder,
}

impl std::ops::Deref for Session {
    type Target = LabStage;

    fn deref(&self) -> &LabStage {
        &self.stage
    }
}

impl<'j> Turn<'j> {
    fn new(job: &'j Job, way: Way) -> Self {
        let host = match (job.measured, way) {
            (Measured::Client, _) => PEER,
            (Measured::Server, Way::Kernel) => KERNEL,
            (Measured::Server, Way::Run) => OURS,
        };
        Self { job, way, host }
    }

    /// The name of a figure.
    fn name(self, what: &str) -> String {
        let way = match self.way {
            Way::Kernel => "kernel",
            Way::Run => "exos-run",
        };
        format!("{}/{way}{what}", self.job)
    }
}

impl Session {
    /// A run of a job: the kernel's sockets, then ours.
    pub fn compare(&self, job: &Job, figures: &mut Figures) -> Result<()> {
        let kernel = self.load(Turn::new(job, Way::Kernel), figures)?;
        let ours = self.load(Turn::new(job, Way::Run), figures)?;
        let ratio = ours.per_sec / kernel.per_sec;
        figures.add_goal(format!("{job}/rate"), "", Goal::AtLeast(job.goal), ratio);
        if let (Some([_, ours]), Some([_, kernel])) = (ours.took_us, kernel.took_us) {
            let name = format!("{job}/p99");
            figures.add_goal(name, "", Goal::AtMost(0.5), ours / kernel);
        }
        Ok(())
    }

    /// Starts the server, has its client do the job, and stops it.
    fn load(&self, turn: Turn<'_>, figures: &mut Figures) -> Result<Seen> {
        let job = turn.job;
        let beside = self.start_beside(turn)?;
        let [serves, asks] = match job.measured {
            Measured::Server => [Side::A, Side::B],
            Measured::Client => [Side::B, Side::A],
        };
        let mut server = self.start_text(turn, serves, job.user.as_deref(), &job.server)?;
        self.await_text(&mut server, turn, &job.ready())?;
        let mut asked = self.ask(turn, asks);
        for _ in 1..ATTEMPTS {
            if asked.is_err() {
                asked = self.ask(turn, asks);
            }
        }
        let (seen, busy) = asked?;
        server.stop()?;
        beside.map_or(Ok(()), Started::stop)?;
        figures.add(turn.name(""), job.unit(), seen.per_sec);
        if let Some([_, p99_us]) = seen.took_us {
            figures.add(turn.name("/p99"), "us", p99_us);
        }
        for (side, busy) in ["/busy", "/peer-busy"].into_iter().zip(busy) {
            figures.add(turn.name(side), "of a core", busy);
        }
        Ok(seen)
    }

    /// Has the client do the job: what was seen of it, and what the cores had to do.
    fn ask(&self, turn: Turn<'_>, asks: Side) -> Result<(Seen, [f64; 2])> {
        let job = turn.job;
        let client = match job.store {
            Some(store) => self.requests(turn, store)?,
            None => self.start_text(turn, asks, None, &timed(&job.client))?,
        };
        let (said, busy) = self.busy_while(|| self.output_of(client, self.seconds))?;
        Ok((self.seen(job, &said)?, busy))
    }

    /// Starts what runs beside a job, where something does.
    fn start_beside(&self, turn: Turn<'_>) -> Result<Option<Started>> {
        let Some(text) = &turn.job.beside else {
            return Ok(None);
        };
        let mut beside = self.start_text(turn, Side::B, None, text)?;
        self.await_text(&mut beside, turn, BESIDE_READY)?;
        Ok(Some(beside))
    }

    /// Starts a text on a side and its core.
    fn start_text(
        &self,
        turn: Turn<'_>,
        side: Side,
        user: Option<&str>,
        text: &str,
    ) -> Result<Started> {
        let is_run = turn.way == Way::Run && side == Side::A;
        let words = self.starter(user, is_run);
        let mut command = self.lab.command(side, &words[0])?;
        command.args(&words[1..]);
        self.folder.give(&mut command, text, turn.host);
        self.start(&turn.job.name, command, self.cores[side as usize])
    }

    /// What starts a text: bash, as a user, by `exos run`.
    fn starter(&self, user: Option<&str>, is_run: bool) -> Vec<OsString> {
        let mut words = Vec::new();
        if let Some(user) = user {
            // It still ends with us.
            let end = ["--pdeathsig", "TERM"];
            words.extend(["setpriv", "--reuid", user, "--regid", user, "--init-groups"]);
            words.extend(end);
            let kept = ["--inh-caps", CAPABILITIES, "--ambient-caps", CAPABILITIES];
            words.extend(kept.into_iter().filter(|_| is_run));
        }
        let mut words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        if is_run {
            let (link, address) = (format!("xdp:{INTERFACE}"), format!("{OURS}/24"));
            let options = [
                "run",
                "--via",
                "none",
                "--link",
                &link,
                "--address",
                &address,
                "--",
            ];
            words.push(self.program.clone().into());
            words.extend(options.map(OsString::from));
        }
        words.push("bash".into());
        words
    }

    /// Waits until a text succeeds on side b.
    fn await_text(&self, server: &mut Started, turn: Turn<'_>, text: &str) -> Result<()> {
        let command = || -> Result<Command> {
            let mut command = self.lab.command(Side::B, "bash")?;
            self.folder.give(&mut command, text, turn.host);
            Ok(command)
        };
        let succeeds = || command().is_ok_and(|mut c| c.output().is_ok_and(|o| o.status.success()));
        self.await_true(server, succeeds)
    }

    /// Clients of a key-value store, once they are connected.
    fn requests(&self, turn: Turn<'_>, store: Store) -> Result<Started> {
        let asks = turn.job.name.rsplit('/').next().unwrap_or_default();
        let [first, then] = store.exchanges(asks);
        let requests = Requests {
            to: SocketAddr::from((turn.host, turn.job.port())),
            from: CLIENT.into(),
            connections: CONNECTIONS,
            gathers: false,
            seconds: self.seconds,
            first,
            then,
        };
        Ok(self.helper(Side::B, &requests)?.started)
    }

    fn seen(&self, job: &Job, said: &str) -> Result<Seen> {
        if job.store.is_some() {
            return read::<Requests>(said);
        }
        Ok(Seen {
            per_sec: job.counts.rate(said, self.folder.megabytes())?,
            took_us: None,
        })
    }
}

/// A text that says when it began and ended, behind all else.
fn timed(text: &str) -> String {
    format!("begin=$EPOCHREALTIME\n{text}\necho \"{TOOK}$begin $EPOCHREALTIME\"")
}
