//! Which kernel this is, and whether it is new enough.
//!
//! The oldest kernel we support is 6.1, that of Debian 12: it has AF_XDP with need-wakeup and busy polling, BPF
//! links for XDP, `BPF_PROG_TEST_RUN` for XDP and multi-buffer XDP. What newer ones add is used where present.

use crate::error::{Error, Result};
use std::fmt;

/// A kernel's version, as far as it says what the kernel can do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

/// The oldest kernel that we support.
pub const MINIMUM: Version = Version { major: 6, minor: 1 };

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The release as the kernel spells it, for example `6.1.0-18-amd64`.
pub fn release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

/// The machine's name, or the container's.
pub fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Reads the two leading numbers of a release.
pub fn parse(release: &str) -> Option<Version> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some(Version {
        major: numbers.next()?.parse().ok()?,
        minor: numbers.next()?.parse().ok()?,
    })
}

/// The version of the running kernel.
pub fn version() -> Result<Version> {
    let release = release();
    parse(&release).ok_or_else(|| {
        Error::new(format!(
            "the kernel's release {release:?} does not begin with a version"
        ))
    })
}

/// Says so when the running kernel is older than [`MINIMUM`].
pub fn check() -> Result<Version> {
    let version = version()?;
    if version < MINIMUM {
        return Err(Error::new(format!(
            "this kernel is {version}, but at least {MINIMUM} is needed for AF_XDP as used here"
        ))
        .mend("boot a newer kernel (Debian 12 and later have one)"));
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_real_kernels() {
        for (release, expected) in [
            ("6.1.0-18-amd64", Some((6, 1))),
            ("6.18.44-fc-v445", Some((6, 18))),
            ("5.15.0-1051-aws", Some((5, 15))),
            ("6.10-rc3", Some((6, 10))),
            ("7.0", Some((7, 0))),
            ("mainline", None),
            ("", None),
        ] {
            let parsed = parse(release).map(|v| (v.major, v.minor));
            assert_eq!(parsed, expected, "{release}");
        }
    }

    #[test]
    fn versions_compare_as_numbers() {
        let (old, new) = (
            Version {
                major: 5,
                minor: 19,
            },
            Version {
                major: 6,
                minor: 10,
            },
        );
        assert!(old < MINIMUM && MINIMUM < new);
    }

    #[test]
    fn this_kernel_has_a_version() {
        assert!(version().expect("a Linux kernel has a version").major >= 4);
    }
}
