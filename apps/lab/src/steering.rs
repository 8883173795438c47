//! On which core a side's kernel processes what comes to it.
//!
//! A veth delivers a packet in the time of the one that sends it, the receiver's TCP included. Receive packet steering
//! (Documentation/networking/scaling.rst in the kernel) hands it to another core instead, with an interrupt between the two
//! unless that core is at it already. What an XDP program takes is not steered: it runs before.

use crate::settings::INTERFACE;
use exos_host::netns::NetNs;
use exos_host::sysfs::Sysfs;
use exos_host::{Error, Result};

/// Has all queues of a side's interface steer to a core, or to none; true when they did not.
pub(crate) fn steer(netns: &NetNs, queues: u32, core: Option<usize>) -> Result<bool> {
    let sysfs = Sysfs::of(netns)?;
    let mut changed = false;
    for queue in 0..queues {
        let path = path(queue);
        match sysfs.read(&path)? {
            Some(set) if cores(&set).eq(core) => {}
            Some(_) => {
                sysfs.write(&path, &mask(core))?;
                changed = true;
            }
            None if core.is_none() => {}
            None => {
                return Err(
                    Error::new("this kernel has no receive packet steering (CONFIG_RPS)")
                        .mend("leave out --receive-cores"),
                );
            }
        }
    }
    Ok(changed)
}

/// The core that a side's first queue steers to.
pub(crate) fn core(netns: &NetNs) -> Result<Option<usize>> {
    let set = Sysfs::of(netns)?.read(&path(0))?;
    Ok(set.and_then(|set| cores(&set).next()))
}

fn path(queue: u32) -> String {
    format!("class/net/{INTERFACE}/queues/rx-{queue}/rps_cpus")
}

/// A set of cores as the kernel takes it: hexadecimal, a comma after each 32 bits, the last cores first.
fn mask(core: Option<usize>) -> String {
    let Some(core) = core else {
        return "0".to_owned();
    };
    let first = format!("{:x}", 1_u32 << (core % 32));
    first + &",00000000".repeat(core / 32)
}

/// The cores of such a set, in order.
fn cores(set: &str) -> impl Iterator<Item = usize> {
    let digits = set.chars().rev().filter_map(|digit| digit.to_digit(16));
    let of_digit = |(i, digit): (usize, u32)| {
        let is_set = move |bit: &usize| digit >> bit & 1 == 1;
        (0..4).filter(is_set).map(move |bit| 4 * i + bit)
    };
    digits.enumerate().flat_map(of_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_cores_are_written_and_read_as_the_kernel_does() {
        for (core, text) in [
            (None, "0"),
            (Some(0), "1"),
            (Some(5), "20"),
            (Some(31), "80000000"),
            (Some(32), "1,00000000"),
            (Some(70), "40,00000000,00000000"),
        ] {
            assert_eq!(mask(core), text);
            assert!(cores(text).eq(core), "{text}");
        }
        assert!(cores("00000001,80000003").eq([0, 1, 31, 32]));
        assert_eq!(cores("").count(), 0);
    }
}
