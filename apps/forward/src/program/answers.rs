//! Has answers to clients come here: they are for none of our addresses where servers see their clients.

use exos::{Error, Exos, Sender};

use crate::packets::packet::Transport;
use crate::packets::reach::Reach;
use crate::service::{Server, Services};

/// Whose packets are taken.
#[derive(Default)]
pub struct Answers {
    /// Of which state of the services.
    known: Option<u64>,
    senders: Vec<Sender>,
}

impl Answers {
    /// Takes the packets of all servers that see their clients, those that are leaving included, where they have changed.
    ///
    /// # Errors
    ///
    /// They cannot be taken on this link, or are too many.
    pub fn take(&mut self, exos: &mut Exos, services: &Services) -> Result<(), Error> {
        if self.known == Some(services.changes()) {
            return Ok(());
        }
        self.known = Some(services.changes());
        let senders = senders(services);
        if senders != self.senders {
            exos.take_from(&senders)?;
            self.senders = senders;
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
