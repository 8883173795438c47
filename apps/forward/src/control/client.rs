//! `exos forward ctl`: one request over the control socket, and its answer.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

use exos::Error;
use serde_json::Value;

use super::request::{Kind, Request};
use super::{metrics, table};
use crate::limits::{ANSWER_LEN_MAX, ANSWER_TIME, CONTROL_PATH};

/// Ask a forwarder that runs how it is, or change its servers
#[derive(clap::Args, Clone, Debug)]
pub struct CtlArgs {
    /// The socket that the forwarder was given with --control
    #[arg(long, global = true, value_name = "PATH", default_value = CONTROL_PATH)]
    control: PathBuf,
    /// Print the answer as JSON (docs/json.md)
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    ask: Ask,
}

/// What is asked.
#[derive(clap::Subcommand, Clone, Debug)]
enum Ask {
    /// Show listeners, servers, and what went through
    Status,
    /// Print all that is counted as Prometheus reads it
    Metrics,
    /// Have the forwarder read its file (--config) anew
    Reload,
    /// Put a server behind the listeners
    Add {
        /// Its port if it is not the listener's, its weight if it is not 1
        #[arg(value_name = "ADDRESS[:PORT][,WEIGHT]")]
        server: String,
        #[command(flatten)]
        only: Only,
    },
    /// Take a server away: it gets no new connections, and those that it has go on until they are over
    Remove {
        #[arg(value_name = "ADDRESS[:PORT]")]
        server: String,
        #[command(flatten)]
        only: Only,
        /// Forget its connections too: what their ends send is answered with resets
        #[arg(long)]
        now: bool,
    },
    /// Give a server no new connections; those that it has go on
    Drain {
        #[arg(value_name = "ADDRESS[:PORT]")]
        server: String,
        #[command(flatten)]
        only: Only,
    },
    /// Give a server that was drained new connections again
    Resume {
        #[arg(value_name = "ADDRESS[:PORT]")]
        server: String,
        #[command(flatten)]
        only: Only,
    },
    /// Give a server another weight
    Weigh {
        #[arg(value_name = "ADDRESS[:PORT]")]
        server: String,
        /// Compared with those of others; 0 for no new connections
        weight: u16,
        #[command(flatten)]
        only: Only,
    },
}

/// Behind which listener.
#[derive(clap::Args, Clone, Debug)]
struct Only {
    /// Behind this listener alone, not all of the server's family
    #[arg(long, value_name = "[tcp:|udp:]ADDRESS:PORT")]
    listener: Option<String>,
}

impl Ask {
    fn request(&self) -> Request {
        let about = |kind, server: &String, only: &Only| Request {
            server: Some(server.clone()),
            listener: only.listener.clone(),
            ..Request::of(kind)
        };
        match self {
            Self::Status | Self::Metrics => Request::of(Kind::Status),
            Self::Reload => Request::of(Kind::Reload),
            Self::Add { server, only } => about(Kind::Add, server, only),
            Self::Remove { server, only, now } => Request {
                now: *now,
                ..about(Kind::Remove, server, only)
            },
            Self::Drain { server, only } => about(Kind::Drain, server, only),
            Self::Resume { server, only } => about(Kind::Resume, server, only),
            Self::Weigh {
                server,
                weight,
                only,
            } => Request {
                weight: Some(*weight),
                ..about(Kind::Weigh, server, only)
            },
        }
    }
}

/// `exos forward ctl`.
///
/// # Errors
///
/// Nobody answers, or what is asked cannot be done.
pub fn run(args: &CtlArgs) -> Result<ExitCode, Error> {
    let request = args.ask.request();
    let line = ask(args, &request)?;
    let strange = || {
        Error::new(format!("this is no answer: {}", line.trim_end()))
            .mend("use a program of the forwarder's version")
    };
    let answer: Value = serde_json::from_str(&line).map_err(|_| strange())?;
    if args.json {
        print!("{line}");
    }
    match (answer["ok"].as_bool(), answer["error"].as_str()) {
        (Some(true), _) if args.json => {}
        (Some(true), _) if matches!(args.ask, Ask::Metrics) => {
            print!("{}", metrics::text(&answer["status"]));
        }
        (Some(true), _) => print!("{}", table::text(&answer)),
        (Some(false), _) if args.json => return Ok(ExitCode::FAILURE),
        (Some(false), Some(error)) => return Err(Error::new(error)),
        _ => return Err(strange()),
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(args: &CtlArgs, request: &Request) -> Result<String, Error> {
    let path = args.control.display();
    let failed = |e| {
        Error::io(format!("cannot ask the forwarder at {path}"), e).mend(
            "start it with --control, name its socket with exos forward ctl --control PATH, and be its user",
        )
    };
    let mut line = String::new();
    let mut exchange = || {
        let mut stream = UnixStream::connect(&args.control)?;
        stream.set_read_timeout(Some(ANSWER_TIME))?;
        stream.set_write_timeout(Some(ANSWER_TIME))?;
        let text = serde_json::to_string(request).expect("plain data becomes JSON");
        stream.write_all(format!("{text}\n").as_bytes())?;
        BufReader::new(stream.take(ANSWER_LEN_MAX)).read_line(&mut line)
    };
    exchange().map_err(failed)?;
    Ok(line)
}
