//! What is measured together.

use crate::stage::request::{Connection, Size};
use crate::stage::web::Server;
use std::fmt;

/// All generators on one server, with one kind of connection and one document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub(super) server: Server,
    pub(super) connection: Connection,
    pub(super) size: Size,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, connection) = (self.server, self.connection);
        write!(f, "{server}/{connection}/{}", self.size.name())
    }
}
