//! What all groups share: the addresses, the labs, our programs and Linux's side in them.

use super::args::TcpArgs;
use super::peer::{Connector, Listener, Role};
use crate::stage::helper::Helping;
use crate::stage::{Stage, Started, check_left_behind, lab_up};
use exos_host::Result;
use exos_lab::{Conditions, Emulated, Emulation, Guard, INTERFACE, Lab, Settings, Side};
use std::net::{Ipv4Addr, SocketAddr};

/// Our stack's address on side a; Linux's there is 10.10.0.1.
pub(super) const EXOS: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 10);
/// Our stack's address where it is on side b.
pub(super) const EXOS_B: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 20);
/// Linux on side b, with the port that everything is measured on.
pub(super) const PEER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 10, 0, 2)), 5001);

/// A session: the labs, and our programs and Linux's side in them.
pub(super) struct Session<'a> {
    pub(super) args: &'a TcpArgs,
    pub(super) stage: Stage,
}

impl std::ops::Deref for Session<'_> {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl Session<'_> {
    /// The plain wire.
    pub(super) fn plain(&self) -> Result<Guard> {
        let lab = lab_up(&Settings::named(&self.args.common.lab))?;
        prepare(&lab)?;
        Ok(lab)
    }

    /// An emulated one.
    pub(super) fn emulated(&self, conditions: &Conditions, seed: u64) -> Result<Emulated> {
        check_left_behind(&self.args.common.lab)?;
        let lab = exos_lab::emulate(&Settings {
            emulation: Some(Emulation {
                conditions: conditions.clone(),
                seed,
                core: None,
            }),
            ..Settings::named(&self.args.common.lab)
        })?;
        prepare(&lab)?;
        Ok(lab)
    }

    /// One of our programs on a side, with these arguments.
    pub(super) fn exos(&self, lab: &Lab, side: Side, arguments: &str) -> Result<Started> {
        let address = match side {
            Side::A => EXOS,
            Side::B => EXOS_B,
        };
        let mut command = lab.command(side, &self.program)?;
        command.args(arguments.split(' '));
        command.args(["--link", &format!("xdp:{INTERFACE}"), "--json"]);
        command.args(["--address", &format!("{address}/24")]);
        let name = arguments.split(' ').next().unwrap_or_default();
        self.start(name, command, self.cores[side as usize])
    }

    /// Linux on side a, which connects to its side on side b, and may need some attempts.
    pub(super) fn connect(
        &self,
        lab: &Lab,
        role: Role,
        congestion: &str,
    ) -> Result<Helping<Connector>> {
        let congestion = congestion.to_owned();
        let connector = Connector {
            role,
            address: PEER,
            congestion,
        };
        self.begin(
            lab.command(Side::A, &self.helpers)?,
            self.cores[0],
            &connector,
        )
    }

    /// Linux on side b, which listens and measures one connection.
    pub(super) fn listen(
        &self,
        lab: &Lab,
        role: Role,
        congestion: &str,
    ) -> Result<Helping<Listener>> {
        let listener = Listener {
            role,
            address: PEER,
            congestion: congestion.to_owned(),
            connections: 1,
            warmup: 0.0,
            seconds: self.args.seconds(),
        };
        self.help_on(lab, Side::B, &listener)
    }
}

/// Linux shall not remember one measurement's path in the next, nor run out of ports and backlog.
fn prepare(lab: &Lab) -> Result<()> {
    for side in Side::BOTH {
        let namespace = lab.netns(side);
        namespace.set_sysctl("net/ipv4/tcp_no_metrics_save", "1")?;
        namespace.set_sysctl("net/ipv4/ip_local_port_range", "1024 65535")?;
        namespace.set_sysctl("net/ipv4/tcp_tw_reuse", "1")?;
        namespace.set_sysctl("net/core/somaxconn", "4096")?;
    }
    Ok(())
}
