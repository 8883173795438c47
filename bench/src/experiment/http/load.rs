//! One load of one server: started, checked to answer with the right document, measured and stopped.

use super::outcome::Run;
use super::server::Setup;
use super::{Client, Connection, Session, Size};
use exos_host::Result;
use exos_lab::{Lab, WireKind};
use std::fmt;

/// What is asked of a server, and by whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Load {
    pub client: Client,
    pub wire: WireKind,
    pub connection: Connection,
    pub size: Size,
}

/// As it stands in the names of cells.
impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            client,
            wire,
            connection,
            ..
        } = self;
        write!(f, "{client}/{wire}/{connection}/{}", self.size.name())
    }
}

impl Client {
    /// Whether it can load servers on such a wire: where a program of XDP receives, as ours is, the kernel does not hand
    /// over super-packets.
    pub(super) fn can_on(self, wire: WireKind) -> bool {
        self == Client::Wrk || wire == WireKind::Plain
    }
}

impl Load {
    /// Starts a server, checks it, has it loaded, and stops it. `limit` is the link's packet limit for such visits.
    pub fn run(
        self,
        session: &Session<'_>,
        lab: &Lab,
        setup: Setup,
        limit: Option<f64>,
    ) -> Result<Run> {
        let serving = session.serve(lab, setup, self.size)?;
        let who = (setup.server, &serving);
        let run = match self.client {
            Client::Wrk => {
                let (measured, used) = session.load(lab, who, self.connection, self.size)?;
                Run::of_wrk(measured, used, limit)
            }
            Client::Packets => {
                let (connections, size) = (session.args.connections, self.size.bytes());
                let arguments = [
                    ("--kind", self.connection.to_string()),
                    ("--size", size.to_string()),
                    ("--connections", connections.to_string()),
                ];
                let arguments = arguments.map(|(option, value)| [option.to_owned(), value]);
                let (visited, used, ()) =
                    session.visit(lab, who, arguments.as_flattened(), || Ok(()))?;
                Run::of_packets(&visited, used, limit)
            }
        };
        session.end(self.wire, setup.server, serving)?;
        Ok(run)
    }
}
