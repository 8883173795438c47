//! What the user may choose of `exos bench http`.

use crate::stage::args::{all, shown_as_on_the_command_line};
use crate::stage::request::Size;
use crate::stage::web::{Server, WebArgs, WireArgs};
use exos_lab::WireKind;
use exos_program::units::parse_size;
use schemars::JsonSchema;
use serde::Serialize;

/// Whom everybody is compared with in tables and figures.
pub(super) const PEER: &str = "nginx";

/// Groups of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Group {
    /// Documents of several sizes at full speed, compared with the packet limit of the link
    Documents,
    /// What each optimisation of exos serve is worth: without each one, without all, and on kernel sockets
    Specialisations,
    /// Latency at half of nginx's highest rate
    Latency,
    /// Fast clients next to many slow ones, and what the slow ones cost
    Readers,
    /// Requests of a log for half, once and four times as many bytes of documents as each server may use of the memory, by exos serve, nginx
    /// and h2o
    Log,
    /// Many connections over long round trips, for one document and for those of a log, with as much memory: the rate, and what memory each takes,
    /// by exos serve and nginx
    Wide,
    /// exos serve on two cores compared with one: what a request costs on each, and packets that arrive at the wrong
    /// core
    Cores,
    /// Pages that an application makes (php-fpm, and one that takes next to no time) over FastCGI, by exos serve and nginx, and over
    /// buffers that it shares with exos serve
    Fastcgi,
    /// Documents over TLS: full and resumed handshakes, and standing connections, by exos serve, nginx and HAProxy
    Tls,
    /// Documents over HTTP/2, a hundred streams on each connection, by exos serve, nginx, h2o and HAProxy
    Http2,
    /// Documents over HTTP/3, of 100 bytes and of a megabyte, by exos serve, h2o (2.3 or later) and caddy
    Http3,
    /// Requests that are passed on to an upstream, in plain text and over TLS, by exos serve, nginx and HAProxy
    Proxy,
}

/// Who loads the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// wrk, on kernel sockets.
    Wrk,
    /// A client that writes packets itself, with as little TCP as the protocol allows; plain wire only.
    Packets,
}

shown_as_on_the_command_line!(Client);

impl Client {
    /// Whether it can load servers on such a wire: where a program of XDP receives, as ours is, the kernel does not hand
    /// over super-packets.
    pub(super) fn can_on(self, wire: WireKind) -> bool {
        self == Self::Wrk || wire == WireKind::Plain
    }
}

/// Options of `exos bench http`.
#[derive(clap::Args, Clone, Debug)]
pub struct HttpArgs {
    /// How servers are loaded, and how cells are chosen and told of.
    #[command(flatten)]
    pub web: WebArgs,
    /// Groups to measure, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Group::Documents, Group::Specialisations, Group::Latency, Group::Readers, Group::Log, Group::Wide, Group::Cores, Group::Fastcgi, Group::Tls, Group::Http2, Group::Http3, Group::Proxy])]
    pub groups: Vec<Group>,
    /// Servers to measure, in this order, separated by commas; skips those not installed
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = all::<Server>())]
    pub servers: Vec<Server>,
    /// Clients that load the servers, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Client::Wrk, Client::Packets])]
    pub clients: Vec<Client>,
    /// Sizes of the documents in bytes, separated by commas; K is 1024 bytes, M 1024 K [default:
    /// 0,100,1K,10K,100K,1M, with --quick 100,10K; of specialisations 0,100,1K,10K,100K, with --quick 100,100K]
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<Size>,
    /// Numbers of slow clients, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [64, 1000, 4000], value_parser = clap::value_parser!(u32).range(1..=READERS_MAX))]
    pub readers: Vec<u32>,
    /// Round trips of the group wide in milliseconds, separated by commas
    #[arg(long, value_name = "MS", value_delimiter = ',', default_values_t = [0, 50, 150], value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub round_trips: Vec<u32>,
    /// Connections of the group wide
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=READERS_MAX))]
    pub wide_connections: u32,
    /// Memory that each server may use in the groups log and wide, including the pages of files that the kernel keeps for it; from 64M to 64G
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = memory)]
    pub memory: u64,
    /// Kinds of wire, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [WireKind::Plain, WireKind::Offload])]
    pub wire: Vec<WireKind>,
    /// How each of them is.
    #[command(flatten)]
    pub wire_args: WireArgs,
}

/// Most slow readers: a server of the kernel's has a descriptor for each.
const READERS_MAX: i64 = 8000;

/// Of a server.
fn memory(text: &str) -> std::result::Result<u64, String> {
    let bytes = parse_size(text)?;
    match (64 << 20..=64 << 30).contains(&bytes) {
        true => Ok(bytes),
        false => Err("it must be from 64M to 64G".into()),
    }
}

impl std::ops::Deref for HttpArgs {
    type Target = WebArgs;

    fn deref(&self) -> &WebArgs {
        &self.web
    }
}

impl HttpArgs {
    /// Of the cells of a group those that were asked for.
    pub(super) fn wanted<C: ToString>(
        &self,
        group: Group,
        cells: impl IntoIterator<Item = C>,
    ) -> Vec<C> {
        let is_asked = self.groups.contains(&group);
        self.common.wanted(is_asked, cells)
    }
}
