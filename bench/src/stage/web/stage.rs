//! A stage for web servers and their clients: labs, documents, and the loads of a server.

use super::args::{ReceiveOn, WebArgs, WireArgs};
use super::load::{Carried, WebLoad};
use super::server::Server;
use super::setup::DOCUMENTS;
use crate::report::{Named, Setting};
use crate::stage::helper::Helping;
use crate::stage::packets::Visit;
use crate::stage::request::{Connection, Size, body};
use crate::stage::scratch::write;
use crate::stage::session::{Stage, check_left_behind, lab_up, mac_of};
use exos_host::netns::NetNs;
use exos_host::{Result, kernel};
use exos_lab::{Conditions, Emulated, Emulation, Guard, Lab, Settings, Side, WireKind};
use std::process::Command;

/// A stage for web servers and their clients.
pub(crate) struct WebStage {
    pub stage: Stage,
    pub args: WebArgs,
    /// How long one measurement lasts.
    pub seconds: f64,
    /// How many connections a client keeps busy at a time.
    pub connections: u32,
    /// How the wires of its labs are.
    pub(super) wire: WireArgs,
}

impl std::ops::Deref for WebStage {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl WebStage {
    /// With documents of these sizes.
    pub fn new(args: &WebArgs, sizes: &[Size]) -> Result<Self> {
        let stage = Stage::new(args, args.runs(3))?;
        let documents = stage.scratch.directory(DOCUMENTS)?;
        for size in sizes {
            write(&documents.join(size.document()), body(*size))?;
        }
        Ok(Self {
            stage,
            args: args.clone(),
            seconds: args.seconds(),
            connections: args.connections,
            wire: WireArgs::default(),
        })
    }

    /// With such wires in its labs.
    pub fn with_wire(self, wire: WireArgs) -> Self {
        Self { wire, ..self }
    }

    /// Where and how it is measured: with the kernel's TCP of the servers' side, on a wire with this MTU. What distorts the
    /// numbers is known at the end.
    pub fn setting(
        &self,
        servers_side: &NetNs,
        mtu: u32,
        contenders: &[(impl ToString, String)],
        left_out: &[String],
    ) -> Result<Setting> {
        Ok(Setting {
            kernel: kernel::release(),
            exos: self.version()?,
            congestion_control: servers_side.sysctl("net/ipv4/tcp_congestion_control")?,
            mtu,
            receive_on: self.wire.receive_on,
            connections: self.connections,
            runs: self.runs,
            duration_secs: self.seconds,
            servers: Named::all(contenders),
            left_out: left_out.to_vec(),
            notes: Vec::new(),
        })
    }

    /// Where and how it is measured in a lab.
    pub fn setting_of(
        &self,
        lab: &Lab,
        servers: &[(Server, String)],
        left_out: &[String],
    ) -> Result<Setting> {
        let (side, mtu) = (lab.netns(Side::A), lab.link(Side::A)?.mtu);
        self.setting(side, mtu, servers, left_out)
    }

    /// A lab of its own, prepared alike for all servers.
    pub fn lab(&self, wire: WireKind) -> Result<Guard> {
        self.lab_of(wire, 1)
    }

    /// A lab as [`Self::lab`] makes it, with this many queues at each end of the wire.
    pub fn lab_of(&self, wire: WireKind, queues: u32) -> Result<Guard> {
        let settings = Settings {
            queues,
            ..self.settings(wire)
        };
        let lab = lab_up(&settings)?;
        prepare(&lab)?;
        Ok(lab)
    }

    /// A lab as [`Self::lab`] makes it on the plain wire, under these conditions.
    pub fn emulated(&self, conditions: &Conditions) -> Result<Emulated> {
        check_left_behind(&self.args.lab)?;
        let emulation = Emulation {
            conditions: conditions.clone(),
            seed: 1,
            core: None,
        };
        let lab = exos_lab::emulate(&Settings {
            emulation: Some(emulation),
            ..self.settings(WireKind::Plain)
        })?;
        prepare(&lab)?;
        Ok(lab)
    }

    /// What makes a lab of its own.
    pub(super) fn settings(&self, wire: WireKind) -> Settings {
        let cores = (self.wire.receive_on == ReceiveOn::Own).then_some(self.cores);
        Settings {
            wire,
            receive_cores: cores,
            ..Settings::named(&self.args.lab)
        }
    }

    /// A load of a server with as many connections, and for as long, as the user asks for.
    pub fn load_of(&self, server: Server, connection: Connection, size: Size) -> WebLoad {
        WebLoad {
            connections: self.connections,
            seconds: self.seconds,
            connection,
            at: server.address(),
            size,
            log: None,
            resuming: None,
            carried: Carried::Http1,
        }
    }

    /// A command that has wrk load a server.
    pub fn wrk(&self, lab: &Lab, load: &WebLoad) -> Result<Command> {
        load.by_wrk(self, |program| lab.command(Side::B, program))
    }

    /// A visit of our client to a server, as most are.
    pub fn new_visit(
        &self,
        lab: &Lab,
        server: Server,
        connection: Connection,
        size: Size,
    ) -> Result<Visit> {
        let server = (server.address(), mac_of(lab, Side::A)?);
        let mut visit = Visit::of(server, connection, size, self.seconds);
        visit.connections = self.connections;
        Ok(visit)
    }

    /// Starts our client; it measures then.
    pub fn start_visit(&self, lab: &Lab, visit: &Visit) -> Result<Helping<Visit>> {
        self.help_on(lab, Side::B, visit)
    }
}

/// Tens of thousands of connections a second from one address: all ports, and old ones used again.
fn prepare(lab: &Lab) -> Result<()> {
    let (a, b) = (lab.netns(Side::A), lab.netns(Side::B));
    b.set_sysctl("net/ipv4/ip_local_port_range", "1024 65535")?;
    b.set_sysctl("net/ipv4/tcp_tw_reuse", "1")?;
    a.set_sysctl("net/core/somaxconn", "4096")?;
    a.set_sysctl("net/ipv4/tcp_max_syn_backlog", "4096")
}
