//! What a driver does for us, and turning it on and off: the `SIOCETHTOOL` requests of ethtool(8).
//!
//! Setters return what was before, so that anyone who changes an interface can put it back. An [`Ethtool`] belongs
//! to the network namespace of the thread that opened it.
//!
//! Layouts are those of linux/ethtool.h: each request is a `u32` command followed by its own fields, in native
//! byte order; they are built here as arrays of words.

use crate::error::{Context as _, Error, Result};
use crate::limits::{FEATURE_WORDS, INTERFACE_NAME_LEN};
use crate::netlink::LinkInfo;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

const ETHTOOL_GSET: u32 = 0x1;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_SCHANNELS: u32 = 0x3d;
const ETH_SS_FEATURES: u32 = 4;
const ETH_GSTRING_LEN: usize = 32;

/// A feature of the device by the kernel's own name, for example `tx-tcp-segmentation`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Feature {
    /// The kernel's name.
    pub name: String,
    /// True when it is at work.
    pub active: bool,
    /// True when it is wished for; something it depends on may still keep it from working.
    pub requested: bool,
    /// True when it cannot be changed.
    pub fixed: bool,
}

/// What ends the merging of a device that cannot be told to stop.
pub const STOP_MERGING: &str = "have the device offer its guest offloads as changeable, or not at all (QEMU: ctrl_guest_offloads=on, or guest_tso4=off,guest_tso6=off,guest_ufo=off)";

impl Feature {
    /// True for a device that merges packets as they come (hardware GRO or LRO).
    pub fn merges(&self) -> bool {
        self.active && ["rx-gro-hw", "rx-lro"].contains(&self.name.as_str())
    }

    /// True where no setting ends that.
    pub fn merges_for_good(&self) -> bool {
        self.fixed && self.merges()
    }
}

/// How many queues an interface uses, and could use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Channels {
    /// Receive-only queues in use.
    pub rx: u32,
    /// Transmit-only queues in use.
    pub tx: u32,
    /// Queues in use that do both.
    pub combined: u32,
    /// Most receive-only queues.
    pub rx_max: u32,
    /// Most transmit-only queues.
    pub tx_max: u32,
    /// Most queues that do both.
    pub combined_max: u32,
}

/// A handle for questions about drivers.
pub struct Ethtool {
    socket: OwnedFd,
}

impl Ethtool {
    /// Opens one in the network namespace of the calling thread.
    pub fn new() -> Result<Self> {
        let socket = socket_with(
            AddressFamily::INET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .context(|| "cannot open a socket for device requests")?;
        Ok(Self { socket })
    }

    /// The name of the driver, for example `virtio_net`.
    pub fn driver(&self, interface: &str) -> Result<String> {
        // struct ethtool_drvinfo: command, driver[32], version[32], ...: 196 bytes in all.
        let mut info = [0u32; 196 / 4];
        info[0] = ETHTOOL_GDRVINFO;
        self.request(interface, &mut info)
            .context(|| format!("cannot ask for the driver of {interface}"))?;
        Ok(text(&info[1..9]))
    }

    /// The speed of the link in bits per second; `None` when there is none, as without a cable, or when the driver
    /// makes one up: behind veth and tun there is no wire, and they say 10 Gbit/s.
    pub fn speed(&self, interface: &str) -> Result<Option<u64>> {
        if ["veth", "tun"].contains(&&self.driver(interface)?[..]) {
            return Ok(None);
        }
        // struct ethtool_cmd, 44 bytes: the speed in Mbit/s has its low half at byte 12, its high half at byte 28.
        let mut words = [0u32; 44 / 4];
        words[0] = ETHTOOL_GSET;
        match self.request(interface, &mut words) {
            Ok(()) => Ok(speed(words[3], words[7])),
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(e) => Err(Error::io(
                format!("cannot ask for the speed of {interface}"),
                e,
            )),
        }
    }

    /// The queues of an interface; `None` when its driver has no notion of them.
    pub fn channels(&self, interface: &str) -> Result<Option<Channels>> {
        let mut words = [0u32; 9];
        words[0] = ETHTOOL_GCHANNELS;
        match self.request(interface, &mut words) {
            Ok(()) => Ok(Some(Channels {
                rx: words[5],
                tx: words[6],
                combined: words[8],
                rx_max: words[1],
                tx_max: words[2],
                combined_max: words[4],
            })),
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(e) => Err(Error::io(
                format!("cannot ask for the queues of {interface}"),
                e,
            )),
        }
    }

    /// How many receive queues of an interface are in use: numbered from 0, each gets a part of what comes. Where the
    /// driver cannot say, those that exist, which may be more.
    pub fn receive_queues(&self, link: &LinkInfo) -> u32 {
        let channels = self.channels(&link.name).ok().flatten();
        let in_use = channels.map(|c| c.rx + c.combined);
        in_use.filter(|&n| n > 0).unwrap_or(link.rx_queues).max(1)
    }

    /// The command that has an interface use this many queues; `None` where its driver does not let it.
    pub fn command_for_queues(&self, interface: &str, count: u32) -> Option<String> {
        let channels = self.channels(interface).ok().flatten()?;
        if (1..=channels.combined_max).contains(&count) {
            return Some(format!("ethtool -L {interface} combined {count}"));
        }
        let most = channels.rx_max.min(channels.tx_max);
        let separate = (1..=most).contains(&count) && channels.combined_max == 0;
        separate.then(|| format!("ethtool -L {interface} rx {count} tx {count}"))
    }

    /// Changes how many queues are in use (the `_max` fields are not looked at) and returns what was before.
    pub fn set_channels(&self, interface: &str, wanted: Channels) -> Result<Channels> {
        let what = || format!("cannot set the queues of {interface}");
        let was = self
            .channels(interface)?
            .ok_or_else(|| Error::new(format!("{}: its driver has none to set", what())))?;
        if (was.rx, was.tx, was.combined) == (wanted.rx, wanted.tx, wanted.combined) {
            return Ok(was);
        }
        let mut words = [
            ETHTOOL_SCHANNELS,
            0,
            0,
            0,
            0,
            wanted.rx,
            wanted.tx,
            0,
            wanted.combined,
        ];
        self.request(interface, &mut words).context(what)?;
        Ok(was)
    }

    /// All features of a device by the kernel's own names.
    pub fn features(&self, interface: &str) -> Result<Vec<Feature>> {
        let what = || format!("cannot read the features of {interface}");
        let names = self.feature_names(interface).context(what)?;
        let blocks = self.feature_blocks(interface).context(what)?;
        let features = names
            .into_iter()
            .enumerate()
            .filter(|(_, name)| !name.is_empty())
            .map(|(bit, name)| {
                let [available, requested, active, never_changed] = blocks[bit / 32];
                let is = |word: u32| word & (1 << (bit % 32)) != 0;
                Feature {
                    name,
                    active: is(active),
                    requested: is(requested),
                    fixed: is(never_changed) || !is(available),
                }
            });
        Ok(features.collect())
    }

    /// Turns a feature on or off by the kernel's own name and returns what it was.
    pub fn set_feature(&self, interface: &str, feature: &str, on: bool) -> Result<bool> {
        let what = || {
            format!(
                "cannot turn {feature} {} for {interface}",
                if on { "on" } else { "off" }
            )
        };
        let names = self.feature_names(interface).context(what)?;
        let bit = names.iter().position(|name| name == feature);
        let bit =
            bit.ok_or_else(|| Error::new(format!("{}: the kernel has no such feature", what())))?;
        let is_on =
            |blocks: [[u32; 4]; FEATURE_WORDS]| blocks[bit / 32][2] & (1 << (bit % 32)) != 0;
        let was = is_on(self.feature_blocks(interface).context(what)?);
        // struct ethtool_sfeatures: command, size, then (valid, requested) for each word.
        let size = names.len().div_ceil(32);
        let mut words = [0u32; 2 + 2 * FEATURE_WORDS];
        (words[0], words[1]) = (ETHTOOL_SFEATURES, size as u32);
        words[2 + 2 * (bit / 32)] = 1 << (bit % 32);
        words[3 + 2 * (bit / 32)] = u32::from(on) << (bit % 32);
        self.request(interface, &mut words).context(what)?;
        if is_on(self.feature_blocks(interface).context(what)?) != on {
            return Err(Error::new(what()).mend(format!(
                "see what it depends on with `ethtool -k {interface}`"
            )));
        }
        Ok(was)
    }

    /// The kernel's names of the features; the position is the bit.
    fn feature_names(&self, interface: &str) -> io::Result<Vec<String>> {
        // struct ethtool_sset_info: command, reserved, mask u64, then a count for each bit of the mask.
        let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
        self.request(interface, &mut info)?;
        let count = (info[4] as usize).min(32 * FEATURE_WORDS);
        // struct ethtool_gstrings: command, set, count, then strings of 32 bytes.
        let mut words = vec![0u32; 3 + count * ETH_GSTRING_LEN / 4];
        (words[0], words[1], words[2]) = (ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32);
        self.request(interface, &mut words)?;
        Ok(words[3..].chunks(ETH_GSTRING_LEN / 4).map(text).collect())
    }

    /// Words of (available, requested, active, never changed).
    fn feature_blocks(&self, interface: &str) -> io::Result<[[u32; 4]; FEATURE_WORDS]> {
        let mut words = [0u32; 2 + 4 * FEATURE_WORDS];
        (words[0], words[1]) = (ETHTOOL_GFEATURES, FEATURE_WORDS as u32);
        self.request(interface, &mut words)?;
        let mut blocks = [[0; 4]; FEATURE_WORDS];
        for (block, words) in blocks.iter_mut().zip(words[2..].chunks(4)) {
            block.copy_from_slice(words);
        }
        Ok(blocks)
    }

    /// One request. `words` must be as long as the command's structure says, the kernel writes that much.
    fn request(&self, interface: &str, words: &mut [u32]) -> io::Result<()> {
        const SIOCETHTOOL: libc::c_ulong = 0x8946;
        if interface.len() > INTERFACE_NAME_LEN || interface.contains('\0') {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        // SAFETY: an ifreq is plain data for which all zeroes is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: the kernel reads the name, and reads and writes the structure behind ifru_data, whose size
        // each caller takes from the command's definition, with counts stated in the structure itself.
        let result =
            unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL as _, &mut request) };
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }
}

/// The speed from the words of `struct ethtool_cmd` that begin with its halves. All bits set is "unknown".
fn speed(low: u32, high: u32) -> Option<u64> {
    let half = |word: u32| {
        let [a, b, ..] = word.to_ne_bytes();
        u32::from(u16::from_ne_bytes([a, b]))
    };
    let mbit = half(high) << 16 | half(low);
    (mbit != 0 && mbit != u32::MAX).then(|| u64::from(mbit) * 1_000_000)
}

/// A zero-terminated string in words.
fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> = words
        .iter()
        .flat_map(|w| w.to_ne_bytes())
        .take_while(|&b| b != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn speeds_are_of_two_halves_and_may_be_unknown() {
        assert_eq!(speed(0xff01_03e8, 0), Some(1_000_000_000), "1000 Mbit/s");
        assert_eq!(speed(0x86a0, 0xffff_0001), Some(100_000_000_000));
        assert_eq!(speed(0xffff, 0xffff), None, "SPEED_UNKNOWN");
        assert_eq!(speed(0, 0), None);
    }

    #[test]
    fn features_of_loopback_can_be_read() {
        let ethtool = Ethtool::new().expect("a socket");
        let features = ethtool.features("lo").expect("lo has features");
        let sg = features
            .iter()
            .find(|f| f.name == "tx-scatter-gather")
            .expect("named so since 2.6.39");
        assert!(sg.active);
    }

    #[test]
    fn only_what_merges_at_present_and_cannot_be_changed_merges_for_good() {
        let feature = |name: &str, active, fixed| Feature {
            name: name.to_owned(),
            active,
            requested: active,
            fixed,
        };
        for (name, active, fixed, merges, for_good) in [
            ("rx-gro-hw", true, true, true, true),
            ("rx-lro", true, false, true, false),
            ("rx-gro-hw", false, true, false, false),
            ("rx-gro", true, true, false, false),
        ] {
            let feature = feature(name, active, fixed);
            assert_eq!(feature.merges(), merges, "{feature:?}");
            assert_eq!(feature.merges_for_good(), for_good, "{feature:?}");
        }
    }

    #[test]
    fn an_interface_that_is_not_there() {
        let ethtool = Ethtool::new().expect("a socket");
        for name in ["nosuchiface", "a-name-that-is-much-too-long", "nul\0inside"] {
            assert!(
                ethtool.driver(name).expect_err("none").is(libc::ENODEV),
                "{name:?}"
            );
        }
    }
}
