//! What a forwarder is to do, whether the command line says it or a file.

use std::path::PathBuf;

use exos::Error;
use exos_program::LinkArgs;

use crate::config;
use crate::forwarder::NoServer;
use crate::health::HealthArgs;
use crate::options::{ForwardArgs, Place, Weighted};
use crate::service::Balance;

/// Where clients come to, and the servers there: those of each listener's family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub listen: Vec<Place>,
    pub to: Vec<Weighted>,
}

/// All that a forwarder is told.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub link: LinkArgs,
    pub flows: u32,
    pub keep: Option<PathBuf>,
    pub control: Option<PathBuf>,
    pub balance: Balance,
    pub no_server: NoServer,
    pub health: HealthArgs,
    pub services: Vec<Service>,
}

impl Wanted {
    /// What the options say, or the file that they name. A link that is named on the command line replaces the file's whole.
    ///
    /// # Errors
    ///
    /// The file cannot stand, with all that is wrong with it.
    pub fn of(args: &ForwardArgs) -> Result<Self, Error> {
        if let Some(file) = &args.config {
            let wanted = config::read(file).map_err(|errors| Error::new(errors.to_string()))?;
            let link = match args.link.link.is_some() || args.link.via.is_some() {
                true => args.link.clone(),
                false => wanted.link,
            };
            return Ok(Self { link, ..wanted });
        }
        Ok(Self {
            link: args.link.clone(),
            flows: args.flows,
            keep: args.keep.clone(),
            control: args.control.clone(),
            balance: args.balance,
            no_server: args.no_server,
            health: args.health.clone(),
            services: vec![Service {
                listen: args.listen.clone(),
                to: args.to.clone(),
            }],
        })
    }
}
