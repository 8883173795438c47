//! Who may open descriptors of a process by `/proc` (proc_pid_fd(5), capabilities(7); ptrace(2), "Ptrace access mode checking",
//! PTRACE_MODE_READ_FSCREDS).

use std::io;

use exos_host::intercept::text_of;

/// Of a process, as `/proc` tells them.
#[derive(Debug, Clone)]
pub(super) struct Credentials {
    /// Real, effective, saved.
    users: [u32; 3],
    groups: [u32; 3],
    permitted: u64,
    inheritable: u64,
    bounding: u64,
    ambient: u64,
}

const CAP_SYS_PTRACE: u64 = 1 << 19;
/// CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: either opens folders of others, such as that of a process's descriptors.
const ANY_FOLDER: u64 = 1 << 1 | 1 << 2;

impl Credentials {
    /// Of a process, by its number, or `self`.
    ///
    /// # Errors
    ///
    /// It has gone.
    pub fn of(process: &str) -> io::Result<Self> {
        Self::parse(&text_of(&format!("/proc/{process}/status"))?)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn parse(status: &str) -> Option<Self> {
        let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let ids = |name: &str| {
            let mut ids = value(name)?.split_whitespace().map(str::parse);
            let mut id = || ids.next()?.ok();
            Some([id()?, id()?, id()?])
        };
        let capabilities = |name: &str| u64::from_str_radix(value(name)?.trim(), 16).ok();
        Some(Self {
            users: ids("Uid:")?,
            groups: ids("Gid:")?,
            permitted: capabilities("CapPrm:")?,
            inheritable: capabilities("CapInh:")?,
            bounding: capabilities("CapBnd:")?,
            ambient: capabilities("CapAmb:")?,
        })
    }

    /// Whether this process may open descriptors of that one, of the same user namespace, when it has become another program without
    /// gaining privilege by that (`no_new_privs`).
    pub fn may_open(&self, other: &Self) -> bool {
        let [user, group] = [self.users[1], self.groups[1]];
        let has = match user {
            0 => self.permitted & (self.bounding | self.inheritable),
            _ => self.ambient,
        };
        let is_the_same = other.users == [user; 3] && other.groups == [group; 3];
        let may_look = has & CAP_SYS_PTRACE != 0 || (is_the_same && other.permitted & !has == 0);
        may_look && (user == other.users[1] || has & ANY_FOLDER != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = 0x1ff_ffff_ffff;

    fn of(id: u32, permitted: u64) -> Credentials {
        let text = format!(
            "Name:\tx\nUid:\t{id}\t{id}\t{id}\t{id}\nGid:\t{id}\t{id}\t{id}\t{id}\nCapInh:\t0\nCapPrm:\t{permitted:016x}\n\
             CapEff:\t0\nCapBnd:\t{ALL:016x}\nCapAmb:\t0\n"
        );
        Credentials::parse(&text).expect("credentials")
    }

    #[test]
    fn who_may_open_whose_descriptors() {
        let (root, user) = (of(0, ALL), of(1000, 0));
        assert!(root.may_open(&root) && root.may_open(&user) && user.may_open(&user));
        assert!(!user.may_open(&root) && !of(1001, 0).may_open(&user));
        // Its capabilities end with its program.
        assert!(!of(1000, ALL).may_open(&root));
        let ambient = |ambient| Credentials {
            ambient,
            ..of(1000, ALL)
        };
        assert!(!ambient(CAP_SYS_PTRACE).may_open(&root));
        assert!(ambient(CAP_SYS_PTRACE | ANY_FOLDER).may_open(&root));
        let bound = Credentials {
            bounding: ALL & !CAP_SYS_PTRACE,
            ..root.clone()
        };
        assert!(!bound.may_open(&root) && bound.may_open(&of(0, 0)));
        let groups = [1001; 3];
        assert!(
            !Credentials {
                groups,
                ..user.clone()
            }
            .may_open(&user)
        );
        assert!(Credentials::of("self").is_ok());
    }
}
