//! One lookup on its way through the names that it may mean.
//!
//! Both families are asked at once for each name, and the first name that has an address is the one meant. As soon as that
//! is known the families are told one by one, so that a connection need not wait for the slower.

use crate::error::{Error, ErrorKind};
use crate::family::{Families, Family};
use crate::message::Found;
use crate::name::Name;
use exos_inet::Instant;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// How asking for one family of one name ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// A server knows.
    Found(Found),
    /// None of these answered.
    NoAnswer(Vec<SocketAddr>),
    /// One at least of these answered that it cannot or will not.
    Failure(Vec<SocketAddr>),
    /// There is none to ask.
    NoServer,
}

impl Outcome {
    fn addresses(&self) -> &[IpAddr] {
        match self {
            Self::Found(Found::Addresses(addresses)) => addresses,
            _ => &[],
        }
    }
}

/// What comes next in a lookup.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Next {
    /// These families of the present name are to be asked for.
    Ask(Vec<Family>),
    /// Answers are waited for.
    Wait,
    /// It has come to its end.
    Done(Result<Known, Error>),
}

/// The addresses of the name that was meant.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Known {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) until: Instant,
    /// The family that may have others, and why nobody could say.
    pub(crate) failed: Option<(Family, Error)>,
}

/// How far one family of the present name is.
enum Progress {
    Unasked,
    Asked,
    /// With until when it holds.
    Known(Outcome, Instant),
}

pub(crate) struct Lookup {
    text: String,
    /// The first is the present one. Never empty.
    names: VecDeque<Name>,
    families: Vec<(Family, Progress)>,
    told: Vec<Family>,
    /// The worst that was said of the names before: it is told if none of the others has addresses.
    failure: Option<Error>,
}

impl Lookup {
    pub(crate) fn new(text: &str, families: Families, names: VecDeque<Name>) -> Self {
        Self {
            text: text.to_owned(),
            names,
            families: families
                .list()
                .map(|family| (family, Progress::Unasked))
                .collect(),
            told: Vec::new(),
            failure: None,
        }
    }

    /// The name being asked for.
    pub(crate) fn name(&self) -> &Name {
        &self.names[0]
    }

    /// Takes an answer in, which holds until then. One that is not waited for changes nothing.
    pub(crate) fn record(&mut self, name: &Name, family: Family, outcome: Outcome, until: Instant) {
        if self.names[0] != *name {
            return;
        }
        for (of, progress) in &mut self.families {
            if *of == family && matches!(progress, Progress::Asked) {
                *progress = Progress::Known(outcome, until);
                return;
            }
        }
    }

    /// Families that are known to belong to the name meant, and have not been told yet, with their addresses.
    pub(crate) fn tell(&mut self) -> Vec<(Family, Vec<IpAddr>)> {
        let known = self
            .families
            .iter()
            .filter_map(|(family, progress)| match progress {
                Progress::Known(outcome, _) => Some((*family, outcome.addresses())),
                Progress::Unasked | Progress::Asked => None,
            });
        let known: Vec<_> = known.collect();
        if known.iter().all(|(_, addresses)| addresses.is_empty()) {
            return Vec::new();
        }
        let new = known
            .into_iter()
            .filter(|(family, _)| !self.told.contains(family));
        let new: Vec<_> = new
            .map(|(family, addresses)| (family, addresses.to_vec()))
            .collect();
        self.told.extend(new.iter().map(|(family, _)| *family));
        new
    }

    /// What comes next. When it says that families are to be asked for, they count as asked for.
    pub(crate) fn next(&mut self) -> Next {
        let mut unasked = Vec::new();
        for (family, progress) in &mut self.families {
            if matches!(progress, Progress::Unasked) {
                *progress = Progress::Asked;
                unasked.push(*family);
            }
        }
        let waiting = self
            .families
            .iter()
            .any(|(_, progress)| matches!(progress, Progress::Asked));
        match (unasked.is_empty(), waiting) {
            (false, _) => Next::Ask(unasked),
            (true, true) => Next::Wait,
            (true, false) => self.conclude(),
        }
    }

    /// All families of the present name are known: either it was the one meant, or the next is asked for.
    fn conclude(&mut self) -> Next {
        let mut outcomes = Vec::new();
        for (family, progress) in &mut self.families {
            if let Progress::Known(outcome, until) = std::mem::replace(progress, Progress::Unasked)
            {
                outcomes.push((*family, outcome, until));
            }
        }
        let having = outcomes
            .iter()
            .filter(|(_, o, _)| !o.addresses().is_empty());
        if let Some(until) = having.clone().map(|(.., until)| *until).min() {
            let addresses = having.flat_map(|(_, outcome, _)| outcome.addresses());
            let addresses = addresses.copied().collect();
            let mut outcomes = outcomes.into_iter();
            let failed = outcomes.find(|(_, o, _)| !matches!(o, Outcome::Found(_)));
            let failed = failed.map(|(family, outcome, _)| (family, self.error(outcome)));
            return Next::Done(Ok(Known {
                addresses,
                until,
                failed,
            }));
        }
        let errors = outcomes
            .into_iter()
            .map(|(_, outcome, _)| self.error(outcome));
        let worst = errors
            .chain(self.failure.clone())
            .max_by_key(|error| severity(error.kind()));
        let worst = worst.unwrap_or_else(|| Error::new(ErrorKind::NoSuchName, &self.text));
        // Where nobody answers, nobody will for the other names either.
        let hopeless = matches!(worst.kind(), ErrorKind::NoAnswer | ErrorKind::NoServer);
        if hopeless || self.names.len() == 1 {
            return Next::Done(Err(worst));
        }
        self.failure = Some(worst);
        self.names.pop_front();
        self.next()
    }

    fn error(&self, outcome: Outcome) -> Error {
        let error = |kind| Error::new(kind, &self.text);
        match outcome {
            Outcome::Found(Found::NoSuchName) => error(ErrorKind::NoSuchName),
            Outcome::Found(_) => error(ErrorKind::NoAddress),
            Outcome::NoAnswer(asked) => error(ErrorKind::NoAnswer).with_servers(asked),
            Outcome::Failure(asked) => error(ErrorKind::ServerFailure).with_servers(asked),
            Outcome::NoServer => error(ErrorKind::NoServer),
        }
    }
}

/// Which of several errors says most: that a name does not exist is certain only where every server could answer.
fn severity(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::NoSuchName => 0,
        ErrorKind::NoAddress => 1,
        ErrorKind::ServerFailure => 2,
        ErrorKind::NoAnswer => 3,
        ErrorKind::NoServer | ErrorKind::BadName | ErrorKind::Busy => 4,
    }
}
