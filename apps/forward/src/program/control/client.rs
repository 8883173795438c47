//! `exos forward ctl`: one request over the control socket, and its answer.

use std::path::PathBuf;
use std::process::ExitCode;

use exos::Error;
use exos_program::control::{self, FORWARD_SOCKET};
use exos_program::message::results;

use super::request::{Kind, Request};
use super::{metrics, table};

/// Ask a forwarder that runs how it is, or change its servers
#[derive(clap::Args, Clone, Debug)]
pub struct CtlArgs {
    /// The socket that the forwarder was given with --control
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
    /// Show listeners, servers, and what went through
    Status,
    /// Print all that is counted as Prometheus reads it
    Metrics,
    /// Have the forwarder read its file (--config) again
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
