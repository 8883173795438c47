//! Which algorithm a connection uses: by name, and at work.

use core::fmt;

use crate::tcp::congestion::bbr::Bbr;
use crate::tcp::congestion::control::{Ack, CongestionControl};
use crate::tcp::congestion::cubic::Cubic;
use crate::tcp::congestion::newreno::NewReno;

/// Which algorithm a connection begins with.
#[derive(Copy, Clone, Default)]
pub enum Algorithm {
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406).
    #[default]
    Cubic,
    /// NewReno (RFC 5681, RFC 6582) with HyStart++.
    NewReno,
    /// A model of the path after BBR: [`bbr`](super::bbr).
    Bbr,
    /// The program's own, made for a maximum segment size. The name is for people.
    Custom(&'static str, fn(mss: u32) -> Box<dyn CongestionControl>),
}

impl Algorithm {
    /// The algorithm of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "cubic" => Self::Cubic,
            "newreno" | "reno" => Self::NewReno,
            "bbr" => Self::Bbr,
            _ => return None,
        })
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::NewReno => "newreno",
            Self::Bbr => "bbr",
            Self::Custom(name, _) => name,
        }
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An algorithm at work for one connection.
#[derive(Debug)]
pub enum Congestion {
    /// CUBIC.
    Cubic(Cubic),
    /// NewReno.
    NewReno(NewReno),
    /// Any other, in a box.
    Boxed(Box<dyn CongestionControl>),
}

impl Congestion {
    /// A fresh one for segments of `mss` bytes.
    pub fn new(algorithm: Algorithm, mss: u32) -> Self {
        match algorithm {
            Algorithm::Cubic => Self::Cubic(Cubic::new(mss)),
            Algorithm::NewReno => Self::NewReno(NewReno::new(mss)),
            Algorithm::Bbr => Self::Boxed(Box::new(Bbr::new(mss))),
            Algorithm::Custom(_, make) => Self::Boxed(make(mss)),
        }
    }

    /// The algorithm, to ask.
    #[inline]
    pub fn get(&self) -> &dyn CongestionControl {
        match self {
            Self::Cubic(c) => c,
            Self::NewReno(c) => c,
            Self::Boxed(c) => c.as_ref(),
        }
    }

    /// The algorithm, to tell.
    #[inline]
    pub fn get_mut(&mut self) -> &mut dyn CongestionControl {
        match self {
            Self::Cubic(c) => c,
            Self::NewReno(c) => c,
            Self::Boxed(c) => c.as_mut(),
        }
    }

    /// How many bytes may be in flight.
    #[inline]
    pub fn window(&self) -> u32 {
        match self {
            Self::Cubic(c) => c.window(),
            Self::NewReno(c) => c.window(),
            Self::Boxed(c) => c.window(),
        }
    }

    /// The slow-start threshold, where it has one.
    #[inline]
    pub fn threshold(&self) -> u32 {
        match self {
            Self::Cubic(c) => c.threshold(),
            Self::NewReno(c) => c.threshold(),
            Self::Boxed(c) => c.threshold(),
        }
    }

    /// See [`CongestionControl::pacing_rate`]. The algorithms held in line have none of their own.
    #[inline]
    pub fn pacing_rate(&self) -> Option<u64> {
        match self {
            Self::Cubic(_) | Self::NewReno(_) => None,
            Self::Boxed(c) => c.pacing_rate(),
        }
    }

    /// See [`CongestionControl::owns_recovery`]. Those held in line do not.
    #[inline]
    pub fn owns_recovery(&self) -> bool {
        match self {
            Self::Cubic(_) | Self::NewReno(_) => false,
            Self::Boxed(c) => c.owns_recovery(),
        }
    }

    /// See [`CongestionControl::on_ack`].
    #[inline]
    pub fn on_ack(&mut self, ack: &Ack) {
        match self {
            Self::Cubic(c) => c.on_ack(ack),
            Self::NewReno(c) => c.on_ack(ack),
            Self::Boxed(c) => c.on_ack(ack),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_is_found_by_its_name() {
        for algorithm in [Algorithm::Cubic, Algorithm::NewReno, Algorithm::Bbr] {
            let found = Algorithm::by_name(algorithm.name()).unwrap();
            assert_eq!(found.name(), algorithm.name());
            let made = Congestion::new(algorithm, 1460);
            assert_eq!(made.get().name(), algorithm.name());
            assert_eq!(made.window(), 14_600);
        }
        assert!(Algorithm::by_name("vegas").is_none());
    }
}
