//! Every bound that this crate sets or asks the kernel to lift, each with its reason.

use crate::error::{Context as _, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;

/// How often a dump that the kernel says was changed under way (`NLM_F_DUMP_INTR`) is asked for again. Each
/// repetition races again with anyone who changes the tables; after this many the last, possibly torn, answer counts.
pub const DUMP_ATTEMPTS: usize = 5;

/// How long the kernel may take to answer a netlink request. It answers within the system call, except while
/// others have the RTNL lock: a busy machine that takes many namespaces down keeps it for seconds at a time.
pub const NETLINK_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest interface name without its terminator: `IFNAMSIZ` is 16.
pub const INTERFACE_NAME_LEN: usize = 15;

/// Offload features whose state fits the fixed bitmaps of `ethtool`: 4 words of 32; the kernel has some 60.
pub const FEATURE_WORDS: usize = 4;

/// The locked memory that this process may have, in bytes; `None` is unlimited.
pub fn memlock() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// Lifts `RLIMIT_MEMLOCK`, which bounds the UMEM of a process without `CAP_IPC_LOCK`, to `bytes` at least, or
/// without limit for `None`. Returns the limit as it was. Raising the hard limit needs `CAP_SYS_RESOURCE`.
pub fn raise_memlock(bytes: Option<u64>) -> Result<Option<u64>> {
    let was = getrlimit(Resource::Memlock);
    let enough = |limit: Option<u64>| limit.is_none_or(|l| bytes.is_some_and(|b| l >= b));
    if enough(was.current) {
        return Ok(was.current);
    }
    let maximum = if enough(was.maximum) {
        was.maximum
    } else {
        bytes
    };
    setrlimit(
        Resource::Memlock,
        Rlimit {
            current: bytes,
            maximum,
        },
    )
    .context(|| "cannot raise the limit on locked memory (RLIMIT_MEMLOCK)")
    .map_err(|e| {
        e.mend(
            "raise it with `ulimit -l unlimited` as root, or LimitMEMLOCK=infinity in the service",
        )
    })?;
    Ok(was.current)
}

/// Raises `RLIMIT_NOFILE`, which bounds the descriptors of this process, to its hard limit. Returns what it is then;
/// `None` is unlimited.
pub fn raise_descriptors() -> Result<Option<u64>> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum })
        .context(|| "cannot raise the limit on descriptors (RLIMIT_NOFILE)")?;
    Ok(maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_raised_to_the_hard_limit() {
        let raised = raise_descriptors().expect("always allowed");
        let limit = getrlimit(Resource::Nofile);
        assert_eq!((limit.current, limit.maximum), (raised, raised));
    }

    #[test]
    fn asking_for_what_we_have_changes_nothing() {
        let now = memlock();
        assert_eq!(
            raise_memlock(Some(4096)).expect("4096 bytes are always allowed"),
            now
        );
        assert_eq!(memlock(), now);
    }
}
