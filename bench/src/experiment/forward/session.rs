//! Measuring: the cells in their order, and in each run of a cell those who forward in turn.

use super::contender::Contender;
use super::forwarding::Forwarding;
use super::network::{Host, Network, SERVER, url};
use super::options::Cell;
use super::outcome::{Case, Outcome, Run, Seen, Used};
use super::report::Report;
use super::{ForwardArgs, RATE_CONNECTIONS};
use crate::experiment::http::{Size, Visited, check_answer, documents, get, wrk};
use crate::limits::{POLL_INTERVAL, START_TIMEOUT};
use crate::report::{Named, Setting};
use crate::stage::cpu;
use crate::stage::link;
use crate::stage::{Stage, Started};
use exos_host::{Error, Result, kernel};
use exos_lab::{INTERFACE, WireKind};
use indicatif::ProgressBar;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The part of a load that is watched, after it has begun and before it ends.
const WATCHED: f64 = 0.8;

struct Session<'a> {
    args: &'a ForwardArgs,
    stage: Stage,
    contenders: Vec<(Contender, String)>,
    left_out: Vec<String>,
}

impl<'a> Session<'a> {
    fn new(args: &'a ForwardArgs) -> Result<Self> {
        let stage = Stage::new(args.room.exos.as_deref())?;
        let (mut contenders, mut left_out) = (Vec::new(), Vec::new());
        for &contender in &args.contenders {
            match contender.version(stage.program()) {
                Ok(version) => contenders.push((contender, version)),
                Err(error) => left_out.push(error.to_string()),
            }
        }
        if contenders.is_empty() {
            return Err(Error::new(left_out.join("; ")));
        }
        if args
            .cells()
            .iter()
            .any(|cell| cell.wire == WireKind::Offload)
        {
            wrk::find()?;
        }
        documents::generate(&stage.scratch.directory("documents")?, &args.sizes())?;
        stage.scratch.write("report.lua", wrk::SCRIPT)?;
        Ok(Self {
            args,
            stage,
            contenders,
            left_out,
        })
    }

    fn setting(&self, network: &Network) -> Result<Setting> {
        let control = network.netns(Host::Server);
        Ok(Setting {
            kernel: kernel::release(),
            exos: self.stage.version()?,
            congestion_control: control.sysctl("net/ipv4/tcp_congestion_control")?,
            mtu: network.mtu()?,
            connections: self.args.room.connections,
            runs: self.args.room.runs(),
            duration_secs: self.args.room.duration(),
            servers: Named::all(&self.contenders),
            left_out: self.left_out.clone(),
            notes: self.stage.notes(),
        })
    }

    /// On the offload wire the server is there all the time; on the plain one it is the client's own.
    fn serve(&self, network: &Network, wire: WireKind) -> Result<Option<Started>> {
        if wire == WireKind::Plain {
            return Ok(None);
        }
        let mut command = network.command(Host::Server, self.stage.program())?;
        let documents = self.stage.scratch.directory("documents")?;
        command.arg("serve").arg("--sockets").arg(documents);
        command.args(["--port", &SERVER.port().to_string()]);
        command.args(["--address", &format!("{}/24", SERVER.ip())]);
        let core = self.stage.cores[1];
        let mut server = self.stage.start("the server", command, core)?;
        self.stage.await_address(&mut server)?;
        Ok(Some(server))
    }

    /// Starts who forwards, and client and server where they are one; loads it, and stops it.
    fn run(&self, network: &Network, cell: Cell, contender: Contender) -> Result<Run> {
        let load = match cell.wire {
            WireKind::Plain => Some(Visits::start(self, network, cell, contender)?),
            WireKind::Offload => None,
        };
        let mut forwarding = contender.start(&self.stage, network)?;
        let client = match load {
            Some(visits) => visits.begin(&self.stage)?,
            None => {
                self.await_forwarding(network, &mut forwarding, contender, cell.size)?;
                self.wrk(network, cell, contender)?
            }
        };
        let before = self.times(network, &forwarding)?;
        let seconds = WATCHED * f64::from(self.args.room.duration());
        std::thread::sleep(Duration::from_secs_f64(seconds));
        let used = self.times(network, &forwarding)?.since(&before);
        let seen = self.seen(client, cell, contender)?;
        forwarding.check()?;
        forwarding.stop()?;
        Ok(Run::new(seen, &used))
    }

    /// The document comes through as it is. Our client looks at that itself, with each answer.
    fn await_forwarding(
        &self,
        network: &Network,
        forwarding: &mut Forwarding<'_>,
        contender: Contender,
        size: Size,
    ) -> Result<()> {
        let (at, document) = (contender.address().into(), size.document());
        let end = Instant::now() + START_TIMEOUT;
        loop {
            self.stage.go_on()?;
            forwarding.check()?;
            match network.netns(Host::Client).run(|| get(at, &document))? {
                Ok(answer) => return check_answer(contender, &answer, size),
                Err(_) if Instant::now() < end => std::thread::sleep(POLL_INTERVAL),
                Err(e) => return Err(Error::io(format!("nothing comes through {contender}"), e)),
            }
        }
    }

    fn wrk(&self, network: &Network, cell: Cell, to: Contender) -> Result<Started> {
        let mut command = network.command(Host::Client, wrk::find()?)?;
        let script = self.stage.scratch.file("report.lua");
        let load = (self.args.room.connections, self.args.room.duration());
        let url = url(to.address(), cell.size);
        wrk::ask(&mut command, load, &script, cell.connection, &url);
        self.stage.start("wrk", command, self.stage.cores[1])
    }

    fn seen(&self, client: Started, cell: Cell, who: Contender) -> Result<Seen> {
        let seconds = f64::from(self.args.room.duration());
        let seen = if cell.wire == WireKind::Offload {
            let output = self.stage.said(client, seconds)?;
            wrk::parse(&output).map(Seen::of_wrk).ok_or_else(|| {
                Error::new(format!("wrk did not report what it measured: {output}"))
            })?
        } else {
            Seen::of_packets(&self.stage.measured::<Visited>(client, seconds)?)
        };
        if seen.requests == 0 {
            self.stage.note(format!(
                "{who} forwarded not a single answer under load in {cell}"
            ));
        }
        Ok(seen)
    }

    fn times(&self, network: &Network, forwarding: &Forwarding<'_>) -> Result<Times> {
        Ok(Times {
            at: Instant::now(),
            forwarder_us: forwarding.busy_us()?,
            others: cpu::of_core(self.stage.cores[1])?,
            packets: link::received(network.netns(Host::Forwarder), INTERFACE)?,
        })
    }

    /// All contenders in a cell, in turn, as often as asked for.
    fn measure(&self, network: &Network, cell: Cell, progress: &ProgressBar) -> Result<Case> {
        let mut runs = vec![Vec::new(); self.contenders.len()];
        for _ in 0..self.args.room.runs() {
            for ((contender, _), runs) in self.contenders.iter().zip(&mut runs) {
                progress.set_message(format!("{cell}, {contender}"));
                runs.push(self.run(network, cell, *contender)?);
                progress.inc(1);
            }
        }
        let contenders = self.contenders.iter().map(|(contender, _)| *contender);
        let results = contenders
            .zip(runs)
            .map(|(who, runs)| Outcome::of(who, runs));
        Ok(Case::new(cell, results.collect()))
    }
}

/// Client and server in one program, which waits until all is there.
struct Visits {
    started: Started,
    go: PathBuf,
    ready: PathBuf,
}

impl Visits {
    fn start(session: &Session<'_>, network: &Network, cell: Cell, to: Contender) -> Result<Self> {
        let stage = &session.stage;
        let [listening, go, ready] = ["listening", "go", "ready"].map(|name| stage.new_file(name));
        let mut command = network.command(Host::Client, stage.program())?;
        command.args(["bench", "http-packets", "visit"]);
        command.args(["--server-netns", network.name(Host::Server)]);
        command.args(["--server", &SERVER.to_string()]);
        command.arg("--listening").arg(&listening);
        command.arg("--go").arg(&go);
        command.arg("--ready").arg(&ready);
        command.args(["--to", &to.address().to_string()]);
        command.args(["--mac", &network.mac(to.host())?.to_string()]);
        command.args(["--size", &cell.size.bytes().to_string()]);
        command.args(["--kind", &cell.connection.to_string()]);
        command.args(["--seconds", &session.args.room.duration().to_string()]);
        let connections = match cell.rate {
            Some(rate) => {
                command.args(["--rate", &rate.to_string()]);
                RATE_CONNECTIONS
            }
            None => session.args.room.connections,
        };
        command.args(["--connections", &connections.to_string()]);
        let mut started = stage.start("http-packets", command, stage.cores[1])?;
        stage.await_true(&mut started, || listening.exists())?;
        Ok(Self { started, go, ready })
    }

    /// Has the client begin, and waits until it measures.
    fn begin(mut self, stage: &Stage) -> Result<Started> {
        crate::stage::scratch::write(&self.go, "")?;
        stage.await_true(&mut self.started, || self.ready.exists())?;
        Ok(self.started)
    }
}

/// What had been done at a moment.
struct Times {
    at: Instant,
    forwarder_us: f64,
    others: cpu::CoreTime,
    packets: u64,
}

impl Times {
    fn since(self, before: &Self) -> Used {
        Used {
            seconds: (self.at - before.at).as_secs_f64(),
            forwarder_us: self.forwarder_us - before.forwarder_us,
            others: self.others - before.others,
            packets: self.packets - before.packets,
        }
    }
}

/// Measures as asked.
pub(super) fn measure(args: &ForwardArgs) -> Result<Report> {
    let session = Session::new(args)?;
    session.stage.note_other_load()?;
    let cells = args.cells();
    let steps = cells.len() * session.contenders.len() * args.room.runs() as usize;
    let progress = session.stage.progress(steps);
    let (mut cases, mut setting) = (Vec::new(), None);
    for cells in cells.chunk_by(|a, b| a.wire == b.wire) {
        let wire = cells[0].wire;
        let network = Network::make(&args.room.lab, wire)?;
        if setting.is_none() {
            setting = Some(session.setting(&network)?);
        }
        let server = session.serve(&network, wire)?;
        for &cell in cells {
            let case = session.measure(&network, cell, &progress)?;
            progress.suspend(|| eprint!("{}", case.rows()));
            cases.push(case);
        }
        server.map_or(Ok(()), Started::stop)?;
    }
    progress.finish_and_clear();
    let mut setting = setting.expect("there is a cell");
    setting.notes = session.stage.notes();
    Ok(Report {
        schema: "exos.bench.forward/1",
        setting,
        forwarder_core: session.stage.cores[0],
        others_core: session.stage.cores[1],
        cases,
    })
}
