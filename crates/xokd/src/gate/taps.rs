//! Copies for dump clients, as far as one interface's gate has them: a pair of programs in one place of
//! `taps_in` and `taps_out`, and what they counted.
//!
//! `Config::taps` says how many there are, so that packets of an interface without any do not look. The programs are made
//! elsewhere ([`TapWork`]), because it takes long.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use exos_filter::gate::limits::TAPS_MAX;
use exos_filter::gate::{self, Maps};
use exos_host::bpf::{Map, Prog};
use exos_host::error::{Error, Result};

use super::Gate;
use super::load::{load_incoming, load_outgoing};

/// What it takes to make a tap's programs for a gate.
#[derive(Debug)]
pub struct TapWork {
    maps: Arc<Maps<Map>>,
}

/// The programs of a tap: for what comes in, and for what goes out.
#[derive(Debug)]
pub struct TapPrograms([Prog; 2]);

impl TapWork {
    /// Compiles the programs and has the kernel verify them.
    pub fn make(&self, tap: &gate::Tap) -> Result<TapPrograms> {
        let fds = self.maps.map(|map| map.raw_fd());
        let [incoming, outgoing] = gate::tap(&fds, tap).map_err(|_| {
            Error::new("the filter is too long for a program of the kernel").mend("ask for less")
        })?;
        // An entry of a program array must be as the programs that call it: for packets in fragments too.
        let incoming = load_incoming(&incoming, "exos_tap_in")?;
        let outgoing = load_outgoing(&outgoing, "exos_tap_out")?;
        Ok(TapPrograms([incoming, outgoing]))
    }
}

impl Gate {
    /// What it takes to make a tap's programs.
    pub fn tap_work(&self) -> TapWork {
        TapWork {
            maps: Arc::clone(&self.maps),
        }
    }

    /// Puts a tap's programs in their place, or others in place of them.
    pub fn put_tap(
        &mut self,
        index: u32,
        TapPrograms([incoming, outgoing]): &TapPrograms,
    ) -> Result<()> {
        self.maps.taps_in.set_fd(index, incoming.as_fd())?;
        self.maps.taps_out.set_fd(index, outgoing.as_fd())?;
        self.taps |= 1 << index;
        self.count_taps()
    }

    /// Takes a tap's programs out. Packets under way may still be copied.
    pub fn take_tap(&mut self, index: u32) -> Result<()> {
        let done = [
            self.maps.taps_in.clear(index).map(drop),
            self.maps.taps_out.clear(index).map(drop),
        ];
        let zeros = vec![0; self.maps.tap_counts.user_value_size()];
        self.maps.tap_counts.update(&index.to_ne_bytes(), &zeros)?;
        self.taps &= !(1 << index);
        self.count_taps()?;
        done.into_iter().collect()
    }

    /// Takes all taps out: those that an earlier daemon left.
    pub fn take_taps(&mut self) -> Result<()> {
        (0..TAPS_MAX).try_for_each(|index| self.take_tap(index))
    }

    fn count_taps(&mut self) -> Result<()> {
        self.config.taps = self.taps.count_ones();
        self.write_config()
    }

    /// Copies that a tap made, and copies for which its ring had no room.
    pub fn tap_counts(&self, index: u32) -> Result<[u64; 2]> {
        let counts = self.maps.tap_counts.sum_percpu_u64(index)?;
        Ok([counts[0], counts[1]])
    }
}
