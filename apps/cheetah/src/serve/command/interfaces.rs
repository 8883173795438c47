//! The links of a server, opened: one, whose first stack runs at once, or several interfaces, each of which goes to its threads.

use std::net::IpAddr;

use exos::{Attachment, Core, Error, Exos, LinkKind};
use exos_inet::tcp::ListenerId;
use exos_program::{reachable, reachable_addresses};

use crate::config::Config;
use crate::serve::cores::on_packets::listen;

/// A link, for people.
pub(super) struct Interface {
    /// Its name; nothing where it is the only one.
    pub(super) name: String,
    /// What it is.
    pub(super) description: String,
    /// Where it is to be found.
    pub(super) addresses: Vec<IpAddr>,
    /// The cores of its loops.
    pub(super) cores: Vec<usize>,
}

/// All that takes privilege is done.
pub(super) struct Opened {
    /// The first loop's stack, which listens.
    pub(super) first: (Exos, Vec<ListenerId>),
    /// The other loops', in the order of the links.
    pub(super) others: Vec<Core>,
    pub(super) interfaces: Vec<Interface>,
    /// The link is inside of a user namespace.
    pub(super) is_inside: bool,
}

impl Opened {
    /// Opens the links, whose loops have these cores, and gives privilege up.
    pub(super) fn open(
        config: &Config,
        mut attachments: Vec<Attachment>,
        places: &[Vec<usize>],
    ) -> Result<Self, Error> {
        match attachments.pop() {
            Some(only) if attachments.is_empty() => Self::open_one(config, only, &places[0]),
            last => {
                attachments.extend(last);
                Self::open_several(config, attachments, places)
            }
        }
    }

    fn open_one(config: &Config, attachment: Attachment, cores: &[usize]) -> Result<Self, Error> {
        let is_inside = matches!(attachment.link, LinkKind::OwnTap(_));
        let listen = |exos: &mut Exos| listen(exos, config);
        let (mut exos, listeners) = config.user.attach(attachment, listen)?;
        let interface = Interface {
            name: String::new(),
            description: exos.describe_link(),
            addresses: reachable_addresses(&exos),
            cores: cores.to_vec(),
        };
        Ok(Self {
            others: exos.take_cores(),
            first: (exos, listeners),
            interfaces: vec![interface],
            is_inside,
        })
    }

    fn open_several(
        config: &Config,
        attachments: Vec<Attachment>,
        places: &[Vec<usize>],
    ) -> Result<Self, Error> {
        let interface = |(all, cores): (&Vec<Core>, &Vec<usize>)| Interface {
            name: all[0].interface().to_owned(),
            description: all[0].describe_link(),
            addresses: reachable(all[0].addresses()),
            cores: cores.clone(),
        };
        let open = |opened: Vec<Vec<Core>>| {
            let interfaces = opened.iter().zip(places).map(interface).collect();
            let mut exos = Core::lead(opened.into_iter().flatten())?;
            let listeners = listen(&mut exos, config)?;
            Ok((exos, listeners, interfaces))
        };
        let (mut exos, listeners, interfaces) = config.user.open_each(attachments, open)?;
        Ok(Self {
            others: exos.take_cores(),
            first: (exos, listeners),
            interfaces,
            is_inside: false,
        })
    }
}
