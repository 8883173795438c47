//! A load: sets up, and runs its loops until it is over.
//!
//! | file | what is in it |
//! |---|---|
//! | `probe` | a look whether the server is there |
//! | `probe_http3` | that look by HTTP/3 |
//! | `setup` | what is to be done, before anything is opened |
//! | `threads` | the threads of a load on several cores |
//! | `others` | what the first core hands to the others |
//! | `worker` | what its cores say to one another |
//! | `shown` | what is shown of it while it runs |
//! | `course` | the load under way on a core, whatever carries it |
//! | `on_packets` | the loop on a stack of our own |
//! | `link_choice` | by which link, where none is named |
//! | `windows` | how much connections may have under way together |
//! | `on_sockets` | the loop on the kernel's sockets |

mod course;
mod link_choice;
mod on_packets;
mod on_sockets;
mod others;
mod probe;
mod probe_http3;
mod setup;
mod shown;
mod threads;
mod windows;
mod worker;

use exos::Error;
use exos::signals::Signals;
use exos_host::affinity;
use exos_inet::Part;
use exos_program::LinkName;
use exos_program::cores::is_shared;

use crate::driver::Driver;
use crate::moment;
use crate::options::LoadArgs;
use crate::report::Results;
use crate::request::Content;

use others::Others;
use setup::Setup;
use worker::{Place, Worker};

/// What a load is to do: read and looked up, and nothing opened yet.
///
/// # Errors
///
/// What was said of it is wrong, a file cannot be read, or the server's host has no address.
pub(crate) fn prepare(args: &LoadArgs) -> Result<Setup, Error> {
    Setup::make(args)
}

/// Runs the load until it is over, or a signal asks to stop.
///
/// # Errors
///
/// It could not be begun, or its link was taken away.
pub fn load(args: &LoadArgs, signals: &Signals) -> Result<Results, Error> {
    make(args, Setup::make(args)?, signals)
}

/// Runs a load with a driver of one's own, until it is over or SIGINT or SIGTERM asks to stop. The driver is made from a
/// request as the command line has it, with its host and its fields; where the load is on several cores, on each of them, for
/// its part of the load.
///
/// # Errors
///
/// The load could not be begun, its link was taken away, or the options ask for another driver.
pub fn load_with(
    args: &LoadArgs,
    driver: impl Fn(&Content, Part) -> Box<dyn Driver> + Send + Sync + 'static,
) -> Result<Results, Error> {
    if args.driver.is_some() {
        return Err(
            Error::new("the options ask for another driver than this program's")
                .mend("leave --urls, --replay and --surge out"),
        );
    }
    let content = args.content_of_url()?;
    let driver = Box::new(move |part| driver(&content, part));
    make(args, Setup::make(args)?.with(driver), &Signals::catch()?)
}

/// Makes what was prepared, until it is over, or a signal asks to stop.
///
/// # Errors
///
/// As above.
pub(crate) fn make(args: &LoadArgs, setup: Setup, signals: &Signals) -> Result<Results, Error> {
    let results = on_cores(args, &setup, signals)?;
    let is_early = signals.stop_requested() && moment::unix_now() < results.started_unix_secs;
    if is_early {
        return Err(Error::new(probe::STOPPED));
    }
    Ok(results)
}

fn on_cores(args: &LoadArgs, setup: &Setup, signals: &Signals) -> Result<Results, Error> {
    let places = loops(args, &args.places(&affinity::allowed()?)?);
    let core = places[0].core;
    if args.sockets {
        args.user.give_up()?;
    }
    let mut workers = Worker::make(places, signals)?;
    if let [_, _, ..] = workers[..] {
        return threads::load(args, setup, workers);
    }
    if let Some(core) = core {
        affinity::pin(core)?;
    }
    let worker = workers.pop().expect("one loop has a worker");
    let done = threads::lead(args, setup, worker, Others::none())?;
    done.ok_or_else(threads::stopped)
}

/// The loops of links that have these cores, in the order of the links.
fn loops(args: &LoadArgs, places: &[Vec<usize>]) -> Vec<Place> {
    if places.iter().all(Vec::is_empty) {
        return vec![Place {
            is_first_of_link: true,
            ..Place::default()
        }];
    }
    let others = args.link.others.iter().map(|other| &other.name);
    let names = args.link.link.iter().chain(others);
    let names: Vec<&str> = names.map(LinkName::interface).collect();
    let of_link = |(link, cores): (usize, &Vec<usize>)| {
        let interface = (places.len() > 1).then(|| names[link].to_owned());
        let place = |(nth, &core)| Place {
            core: Some(core),
            shares_core: is_shared(core, places),
            link,
            is_first_of_link: nth == 0,
            interface: interface.clone(),
        };
        cores.iter().enumerate().map(place).collect::<Vec<_>>()
    };
    places.iter().enumerate().flat_map(of_link).collect()
}
