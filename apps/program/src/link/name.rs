//! Links as the command line and files name them.

use std::str::FromStr;

/// A link as `--link` names it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LinkName {
    /// An interface, by AF_XDP.
    Xdp {
        /// The interface.
        interface: String,
        /// One of its queues; all that are in use when left out.
        queue: Option<u32>,
    },
    /// An interface, by packet sockets.
    Packet(String),
    /// A TAP device.
    Tap(String),
}

impl LinkName {
    /// The interface that it is on, beside the host.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Xdp { interface, .. } | Self::Packet(interface) => Some(interface),
            Self::Tap(_) => None,
        }
    }
}

impl FromStr for LinkName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = "write xdp:INTERFACE, xdp:INTERFACE:QUEUE, packet:INTERFACE or tap:NAME";
        let (kind, rest) = text
            .split_once(':')
            .ok_or(format!("{text:?} names no kind of link; {help}"))?;
        match (kind, rest) {
            (_, "") => Err(format!("{text:?} names no interface; {help}")),
            ("packet", name) => Ok(Self::Packet(name.to_owned())),
            ("tap", name) => Ok(Self::Tap(name.to_owned())),
            ("xdp", rest) => {
                let Some((interface, queue)) = rest.rsplit_once(':') else {
                    return Ok(Self::Xdp {
                        interface: rest.to_owned(),
                        queue: None,
                    });
                };
                let queue = queue
                    .parse()
                    .map(Some)
                    .map_err(|_| format!("{queue:?} is no queue number; {help}"))?;
                Ok(Self::Xdp {
                    interface: interface.to_owned(),
                    queue,
                })
            }
            _ => Err(format!("{kind:?} is no kind of link; {help}")),
        }
    }
}
