//! What the user may choose of every experiment with web servers.

use crate::limits::CONNECTIONS_MAX;
use crate::stage::args::{CommonArgs, shown_as_on_the_command_line};
use crate::stage::request::{Connection, Size};
use schemars::JsonSchema;
use serde::Serialize;

/// How web servers are loaded.
#[derive(clap::Args, Clone, Debug)]
pub struct WebArgs {
    /// What all experiments have.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Kinds of connection, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Connection::New, Connection::Persistent])]
    pub connection: Vec<Connection>,
    /// Connections that the client keeps busy at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=i64::from(CONNECTIONS_MAX)))]
    pub connections: u32,
    /// User ID, not root's, that exos runs as when the daemon provides its link
    #[arg(long, default_value_t = 65534, value_parser = clap::value_parser!(u32).range(1..))]
    pub uid: u32,
}

/// Where an end's kernel processes the frames that come to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ReceiveOn {
    /// On the sender's core, as a veth does by itself
    #[default]
    Sender,
    /// On the end's own core, by receive packet steering: an interrupt between the cores for most frames, and each end
    /// pays for its own kernel. What an XDP program takes is not steered
    Own,
}

shown_as_on_the_command_line!(ReceiveOn);

/// How the wire between a server and its client is.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct WireArgs {
    /// Where an end's kernel processes the frames that come to it
    #[arg(long, value_enum, default_value_t)]
    pub receive_on: ReceiveOn,
}

impl std::ops::Deref for WebArgs {
    type Target = CommonArgs;

    fn deref(&self) -> &CommonArgs {
        &self.common
    }
}

impl WebArgs {
    /// How long one measurement lasts, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.common.seconds(if self.quick { 1.0 } else { 2.0 })
    }

    /// The sizes that were asked for, or those that are measured when none was: all, or a few with --quick.
    pub(crate) fn sizes(&self, asked: &[Size], all: &[u64], few: &[u64]) -> Vec<Size> {
        let default = if self.quick { few } else { all };
        match asked {
            [] => default.iter().map(|&bytes| Size::of_bytes(bytes)).collect(),
            asked => asked.to_vec(),
        }
    }
}
