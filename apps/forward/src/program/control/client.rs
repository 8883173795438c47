//! `exos forward ctl`: one request over the control socket, and its answer.

use std::path::PathBuf;
use std::process::ExitCode;

use exos::Error;
use exos_program::control::{self, FORWARD_SOCKET};
use exos_program::message::results;

use super::request::{Kind, Request};
use super::{metrics, table};

/// Show the status of a running forwarder, or change its servers
#[derive(clap::Args, Clone, Debug)]
pub struct CtlArgs {
    /// The forwarder's control socket
    #[arg(long, global = true, value_name = "PATH", default_value = FORWARD_SOCKET)]
    control: PathBuf,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    ask: Ask,
}

/// What is asked.
#[derive(clap::Subcommand, Clone, Debug)]
enum Ask {
    /// Show listeners, servers and traffic
    Status,
    /// Print all counters in Prometheus format
    Metrics,
    /// Have the forwarder reload its --config file
    Reload,
    /// Add a server to the listeners
    Add {
        /// The server; PORT defaults to the listener's, WEIGHT to 1
        #[arg(value_name = "ADDRESS[:PORT][,WEIGHT]")]
        server: String,
        #[command(flatten)]
        only: Only,
    },
    /// Remove a server: it gets no new connections; existing ones continue until they end
    Remove {
        #[command(flatten)]
        which: Which,
        /// Also drop its connections: both ends get a reset when they next send
        #[arg(long)]
        now: bool,
    },
    /// Give a server no new connections; existing ones continue
    Drain(Which),
    /// Give a drained server new connections again
    Resume(Which),
    /// Change the weight of a server
    Weigh {
        #[command(flatten)]
        which: Which,
        /// Weight relative to the other servers; 0: no new connections
        weight: u16,
    },
}

/// A server that is there.
#[derive(clap::Args, Clone, Debug)]
struct Which {
    /// The server
    #[arg(value_name = "ADDRESS[:PORT]")]
    server: String,
    #[command(flatten)]
    only: Only,
}

/// Behind which listener.
#[derive(clap::Args, Clone, Debug)]
struct Only {
    /// Only for this listener [default: all listeners of the server's address family]
    #[arg(long, value_name = "[tcp:|udp:]ADDRESS:PORT")]
    listener: Option<String>,
}

impl Ask {
    fn request(&self) -> Request {
        let about = |kind, server: &str, only: &Only| Request {
            server: Some(server.to_owned()),
            listener: only.listener.clone(),
            ..Request::of(kind)
        };
        let of = |kind, which: &Which| about(kind, &which.server, &which.only);
        match self {
            Self::Status | Self::Metrics => Request::of(Kind::Status),
            Self::Reload => Request::of(Kind::Reload),
            Self::Add { server, only } => about(Kind::Add, server, only),
            Self::Remove { which, now } => Request {
                now: *now,
                ..of(Kind::Remove, which)
            },
            Self::Drain(which) => of(Kind::Drain, which),
            Self::Resume(which) => of(Kind::Resume, which),
            Self::Weigh { which, weight } => Request {
                weight: Some(*weight),
                ..of(Kind::Weigh, which)
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
    let line = control::ask(&args.control, &args.ask.request(), control::ANSWER_TIME)?;
    let answer = control::answer(&line)?;
    if args.json {
        results(&line)?;
        let good = answer.is_ok();
        return Ok(if good {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    let answer = answer?;
    match args.ask {
        Ask::Metrics => results(&metrics::text(&answer["status"]))?,
        _ => results(&table::text(&answer))?,
    }
    Ok(ExitCode::SUCCESS)
}
