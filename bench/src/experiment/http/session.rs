//! What all groups of a session share: the room, and the servers in it.

use super::room::Room;
use super::server::Known;
use super::{Client, HttpArgs, documents, wrk};
use crate::stage::Stage;
use exos_host::{Error, Result};

/// A session.
pub(super) struct Session<'a> {
    pub args: &'a HttpArgs,
    /// What is measured, with what each calls itself.
    pub servers: Known,
    /// Why others are not.
    pub left_out: Vec<String>,
    room: Room,
}

impl std::ops::Deref for Session<'_> {
    type Target = Room;

    fn deref(&self) -> &Room {
        &self.room
    }
}

impl<'a> Session<'a> {
    pub fn new(args: &'a HttpArgs) -> Result<Self> {
        let stage = Stage::new(args.exos.as_deref())?;
        let (servers, left_out) = super::server::available(&args.servers, stage.program())?;
        if servers.is_empty() {
            return Err(Error::new(left_out.join("; ")));
        }
        if args.clients.contains(&Client::Wrk) {
            wrk::find()?;
        }
        let mut sizes = args.sizes();
        sizes.extend(super::specialisations::sizes(args));
        sizes.extend([
            super::latency::DOCUMENT,
            super::readers::FAST,
            super::readers::SLOW,
        ]);
        documents::generate(&stage.scratch.directory("documents")?, &sizes)?;
        stage.scratch.write("report.lua", wrk::SCRIPT)?;
        let room = Room::new(stage, &args.room);
        Ok(Self {
            args,
            servers,
            left_out,
            room,
        })
    }
}
