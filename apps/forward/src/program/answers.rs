//! Has answers to clients come here: they are for none of our addresses where servers see their clients.

use exos::{Error, Sender};

use crate::packets::packet::Transport;
use crate::packets::reach::Reach;
use crate::program::links::Links;
use crate::service::{Server, Services};

/// Whose packets are taken.
#[derive(Default)]
pub struct Answers {
    /// Of which state of the services.
    known: Option<u64>,
    /// On each link.
    senders: Vec<Vec<Sender>>,
}

impl Answers {
    /// Takes the packets of all servers that see their clients, those that are leaving included, where they have changed.
    ///
    /// # Errors
    ///
    /// They cannot be taken on this link, or are too many.
    pub fn take(&mut self, links: &mut Links, services: &Services) -> Result<(), Error> {
        if self.known == Some(services.changes()) {
            return Ok(());
        }
        self.known = Some(services.changes());
        let all = senders(services);
        self.senders.resize(links.all().len(), Vec::new());
        for (place, known) in self.senders.iter_mut().enumerate() {
            let here = |sender: &&Sender| links.place_to(sender.at.ip()) == place;
            let senders: Vec<Sender> = all.iter().filter(here).copied().collect();
            if senders != *known {
                links.all_mut()[place].take_from(&senders)?;
                *known = senders;
            }
        }
        Ok(())
    }
}

fn senders(services: &Services) -> Vec<Sender> {
    let all = services.present().map(|(_, server)| server);
    let seeing = all.filter(|server| server.reach == Reach::Transparent);
    let sender = |server: &Server| Sender {
        at: server.at.into(),
        tcp: server.transport == Transport::Tcp,
    };
    let mut senders: Vec<Sender> = seeing.map(sender).collect();
    senders.sort_unstable();
    senders.dedup();
    senders
}
