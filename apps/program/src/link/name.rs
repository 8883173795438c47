//! Links as a person names them.

use std::str::FromStr;

use exos::via::Mode;

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
    /// A part of an interface of the daemon's.
    Xokd(String),
}

impl LinkName {
    /// The interface that it is about.
    pub fn interface(&self) -> &str {
        match self {
            Self::Xdp { interface, .. }
            | Self::Packet(interface)
            | Self::Tap(interface)
            | Self::Xokd(interface) => interface,
        }
    }

    /// Several cores may have a share of it each.
    pub fn can_be_shared_out(&self) -> bool {
        matches!(self, Self::Xdp { queue: None, .. })
    }
}

impl FromStr for LinkName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = "write xdp:INTERFACE, xdp:INTERFACE:QUEUE, packet:INTERFACE, tap:NAME or xokd:INTERFACE";
        let (kind, rest) = text
            .split_once(':')
            .ok_or(format!("{text:?} names no kind of link; {help}"))?;
        match (kind, rest) {
            (_, "") => Err(format!("{text:?} names no interface; {help}")),
            ("packet", name) => Ok(Self::Packet(name.to_owned())),
            ("tap", name) => Ok(Self::Tap(name.to_owned())),
            ("xokd", name) => Ok(Self::Xokd(name.to_owned())),
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

/// Who lends the link.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ViaName {
    /// The daemon, a part of this interface or of its only one.
    Xokd(Option<String>),
    /// Nobody: the program makes it.
    Nobody,
}

impl FromStr for ViaName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "xokd" => Ok(Self::Xokd(None)),
            None if text == "none" => Ok(Self::Nobody),
            Some(("xokd", interface)) if !interface.is_empty() => {
                Ok(Self::Xokd(Some(interface.to_owned())))
            }
            _ => Err(format!(
                "{text:?} lends nothing; write xokd, xokd:INTERFACE or none"
            )),
        }
    }
}

/// A mode as a person names it: shared, direct or direct:QUEUE.
///
/// # Errors
///
/// What to write instead.
pub fn mode(text: &str) -> Result<Mode, String> {
    let queue = |text: &str| text.parse().ok().map(|queue| Mode::Direct(Some(queue)));
    let known = match text.split_once(':') {
        None if text == "shared" => Some(Mode::Shared),
        None if text == "direct" => Some(Mode::Direct(None)),
        Some(("direct", number)) => queue(number),
        _ => None,
    };
    known.ok_or_else(|| format!("{text:?} is no mode; write shared, direct or direct:QUEUE"))
}
