//! How a program gets its packets: which link, and what is the program's own on it.
//!
//! | attach to | what is made | who else is on it |
//! |---|---|---|
//! | [`OwnPair`] | an interface pair of the program's own ([`pair`]); takes root | nobody |
//! | [`OwnTap`] | a TAP device in a user namespace ([`user_netns`]); takes no privilege | nobody |
//! | [`Interface`] | an AF_XDP socket on each queue, for addresses that nobody else has | the host, and everybody it serves |
//! | [`SharedInterface`] | that, for one port or some peers on the host's own addresses | the host |
//! | [`Interface`] [by packet sockets](By::PacketSockets) | packet sockets and a program in traffic control, for addresses that nobody else has | the host, and everybody it serves |
//! | [`Tap`] | a TAP device | the host |
//! | [`Daemon`] | a part of an interface that a daemon lends ([`crate::via`]): the addresses and ports claimed from it | everybody else who claims |
//!
//! On an interface that the host uses too, only what is for our addresses is taken, and on a shared one only what is for
//! our ports.
//!
//! ```
//! # use exos::{Addresses, Attachment, Interface, OwnPair, Queues, Role, SharedInterface};
//! # fn main() -> Result<(), exos::Error> {
//! let two_cores = OwnPair::new().with_cores(2);
//! let ours = Addresses::new(["192.0.2.7/24".parse().unwrap()])?.with_gateways(["192.0.2.1".parse().unwrap()])?;
//! let queue = Interface { queues: Queues::One(3), ..Interface::new("eth0", ours) };
//! let server = SharedInterface::new("eth0", Role::Serve(vec![80]));
//! let replayed = Attachment { seed: Some(7), ..server.into() };
//! # Ok(()) }
//! ```

mod addresses;
pub(crate) mod daemon;
pub(crate) mod describe;
mod interface;
mod loopback;
mod own;
pub mod pair;
mod pools;
pub(crate) mod role;
mod shared;
mod taken;
mod tap;
pub mod user_netns;

use exos_host::Error;
use exos_host::caps::{self, CapabilitySet};
use exos_host::error::ErrorKind;

use crate::cores::Core;
use crate::node::Exos;
use crate::share::StackSettings;
use crate::via;
pub use addresses::{Addresses, Prefixed, Route};
pub use daemon::Daemon;
pub use interface::{By, Interface, Queues};
pub use own::{OwnPair, OwnTap};
pub use role::Role;
pub(crate) use role::rule;
pub use shared::SharedInterface;
pub use tap::Tap;

/// A link, and how the stack on it behaves.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// The link.
    pub link: LinkKind,
    /// Hand over large segments to be cut by the link, where it can. Off to measure what it brings.
    pub segmentation: bool,
    /// Verify the TCP and UDP checksums of what comes, where the link has not.
    pub verify_checksums: bool,
    /// What sequence numbers, timestamps and local ports follow from, where nobody gains by foretelling them: with the
    /// same seed a peer that still has connections of an earlier run in TIME-WAIT sees ours as later ones (RFC 6191).
    /// `None` draws a secret (RFC 6528).
    pub seed: Option<u64>,
}

/// The kinds of link.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LinkKind {
    /// An interface pair of the program's own.
    OwnPair(OwnPair),
    /// A TAP device in a user namespace of the program's own.
    OwnTap(OwnTap),
    /// An interface by AF_XDP, with addresses of the program's own.
    Interface(Interface),
    /// An interface by AF_XDP, beside the host on its addresses.
    SharedInterface(SharedInterface),
    /// A TAP device.
    Tap(Tap),
    /// A part of an interface that a daemon lends.
    Daemon(Daemon),
}

impl LinkKind {
    /// A link of the program's own, of the kind that this process is allowed.
    pub fn own() -> Self {
        let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
        // Who is root in a user namespace only has them there, and BPF asks for them outside.
        if caps::has(needed) && !user_netns::is_inside() {
            OwnPair::new().into()
        } else {
            OwnTap::new().into()
        }
    }

    /// The interface that is attached to by AF_XDP.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Interface(interface) if interface.by == By::PacketSockets => None,
            Self::Interface(interface) => Some(&interface.name),
            Self::SharedInterface(shared) => Some(&shared.name),
            _ => None,
        }
    }

    /// Refuses what cannot be meant, before anything is made or taken from another program.
    fn check(&self) -> Result<(), Error> {
        let refused = match self {
            Self::SharedInterface(SharedInterface {
                role: Role::Connect(peers),
                ..
            }) if peers.is_empty() => {
                Error::new("beside the host it must be known who is connected to")
                    .mend("name the peers, or attach with an address of our own")
            }
            Self::SharedInterface(SharedInterface {
                role: Role::Serve(ports),
                ..
            })
            | Self::Daemon(Daemon {
                role: Role::Serve(ports),
                ..
            }) if ports.contains(&0) => {
                Error::new("nobody can be served at port 0").mend("choose a port from 1 to 65535")
            }
            Self::Daemon(Daemon { cores: 0, .. }) => {
                Error::new("a program runs on a core at least").mend("say on how many")
            }
            _ => return Ok(()),
        };
        Err(refused.of_kind(ErrorKind::Invalid))
    }
}

impl Attachment {
    fn settings(&self) -> StackSettings {
        StackSettings {
            segmentation: self.segmentation,
            verify_checksums: self.verify_checksums,
            seed: self.seed,
        }
    }
}

impl<T: Into<LinkKind>> From<T> for Attachment {
    fn from(link: T) -> Self {
        Self {
            link: link.into(),
            segmentation: true,
            verify_checksums: true,
            seed: None,
        }
    }
}

/// Each kind of link is one, by its own name.
macro_rules! kinds {
    ($($kind:ident),*) => {
        $(impl From<$kind> for LinkKind {
            fn from(link: $kind) -> Self {
                Self::$kind(link)
            }
        })*
    };
}

kinds!(OwnPair, OwnTap, Interface, SharedInterface, Tap, Daemon);

impl Exos {
    /// Make the link and a stack on it. Everything made is unmade when the result is dropped, or
    /// the process ends in whatever way.
    pub fn attach(wanted: impl Into<Attachment>) -> Result<Self, Error> {
        let wanted = wanted.into();
        wanted.link.check()?;
        let settings = wanted.settings();
        match &wanted.link {
            LinkKind::OwnPair(pair) => pair.attach(&settings),
            LinkKind::OwnTap(tap) => tap.attach(&settings),
            LinkKind::Interface(interface) => interface.attach(&settings, false),
            LinkKind::SharedInterface(shared) => Core::lead(shared.open(&settings)?),
            LinkKind::Tap(tap) => tap.attach(&settings),
            LinkKind::Daemon(daemon) => Core::lead(via::open(daemon, &settings)?),
        }
    }

    /// Makes the links, one after the other, as [`attach`](Self::attach) does, for a program that may follow another at the same
    /// interfaces. `hand_over` has the one before give up what it has, and says whether there was one: then nobody is asked
    /// whether the addresses are free. What comes for them until the links are there is kept where the interface is ours to
    /// open, and is what [`relay`](Self::relay) takes in first.
    ///
    /// # Errors
    ///
    /// As `attach`, or those of `hand_over`.
    pub fn attach_after(
        wanted: Vec<Attachment>,
        hand_over: impl FnOnce() -> Result<bool, Error>,
    ) -> Result<Vec<Self>, Error> {
        let prepare = |wanted: &Attachment| match &wanted.link {
            LinkKind::Interface(interface) => interface.prepare_to_follow().map(Some),
            other => other.check().map(|()| None),
        };
        let passing: Vec<_> = wanted.iter().map(prepare).collect::<Result<_, _>>()?;
        let are_ours = hand_over()?;
        let links = wanted.into_iter().zip(passing);
        let attach = |(wanted, passing): (Attachment, _)| {
            let (LinkKind::Interface(interface), Some(passing)) = (&wanted.link, passing) else {
                return Self::attach(wanted);
            };
            let mut exos = interface.attach(&wanted.settings(), are_ours)?;
            exos.take_passed(passing)?;
            Ok(exos)
        };
        links.map(attach).collect()
    }
}

impl Core {
    /// Opens an interface of a program that runs on several, for each core that is to have a part of it: each is started
    /// in its thread.
    ///
    /// # Errors
    ///
    /// The interface cannot be opened, or the link is none by AF_XDP that the program opens by itself.
    pub fn open(wanted: impl Into<Attachment>) -> Result<Vec<Self>, Error> {
        let wanted = wanted.into();
        wanted.link.check()?;
        match &wanted.link {
            LinkKind::Interface(interface) if interface.by == By::Xdp => {
                interface.open(&wanted.settings(), false)
            }
            LinkKind::SharedInterface(shared) => shared.open(&wanted.settings()),
            _ => Err(
                Error::new("a program on several links opens each of them by AF_XDP")
                    .mend("name interfaces, or run a program on each link")
                    .of_kind(ErrorKind::Invalid),
            ),
        }
    }
}
