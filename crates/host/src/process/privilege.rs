//! Giving up privilege for good: a thread becomes an ordinary user, with that user's groups, and keeps no capability that it
//! could use, get back, or hand to a program that it starts.
//!
//! The kernel keeps all of this for each thread, and a thread that is started has what the one that starts it has. So
//! [`give_up`] is for a program with one thread, or is called by each. [`check_threads`] says whether one was forgotten. What is
//! to be read or written before as the user would is done with the user's rights to files ([`files_as`]).

use std::fs;
use std::time::{Duration, Instant};

use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{self, CapabilitySet, CapabilitySets};

use crate::accounts::Account;
use crate::caps;
use crate::error::{Context as _, Error, Result};

/// The calling thread, and those that it starts from now on, are this user's and have no privilege any more: groups, user,
/// all sets of capabilities, and what programs that it starts could get (`PR_SET_NO_NEW_PRIVS`).
///
/// # Errors
///
/// It is another user's, and not root's. What was given up until then stays so.
pub fn give_up(account: &Account) -> Result<()> {
    let what = || format!("cannot become {}", account.name);
    let mend = "start it as root, or as that user";
    set_ids(account).context(what).map_err(|e| e.mend(mend))?;
    set_capabilities(CapabilitySet::empty()).context(what)
}

/// As [`give_up`], but for capabilities that the thread has and keeps: programs that it starts do not get them.
///
/// # Errors
///
/// As [`give_up`]; or it does not have them.
pub fn give_up_but(account: &Account, kept: CapabilitySet) -> Result<()> {
    let what = || format!("cannot become {} with some capabilities", account.name);
    let mend = "start it as root of the host, or of a namespace that has that user";
    thread::set_keep_capabilities(true).context(what)?;
    set_ids(account).context(what).map_err(|e| e.mend(mend))?;
    set_capabilities(kept).context(what)?;
    thread::set_keep_capabilities(false).context(what)
}

fn set_capabilities(kept: CapabilitySet) -> rustix::io::Result<()> {
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    thread::set_capabilities(None, sets)
}

/// All but the capabilities that doing this takes.
fn set_ids(account: &Account) -> rustix::io::Result<()> {
    thread::clear_ambient_capability_set()?;
    // Without it a user could get by a program's set-user-ID bit what was given up here.
    thread::set_no_new_privs(true)?;
    if caps::has(CapabilitySet::SETPCAP) {
        bound_nothing()?;
    }
    let groups = groups_of(account);
    // Anyone who is that user already, in these groups or fewer, may have no right to say so.
    let is_within = rustix::process::getgroups()?
        .iter()
        .all(|gid| groups.contains(gid));
    if !is_within || caps::has(CapabilitySet::SETGID) {
        thread::set_thread_groups(&groups)?;
    }
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    thread::set_thread_res_gid(gid, gid, gid)?;
    // Root's capabilities go with its number.
    thread::set_thread_res_uid(uid, uid, uid)
}

fn groups_of(account: &Account) -> Vec<Gid> {
    let groups = account.groups.iter();
    groups.map(|gid| Gid::from_raw(*gid)).collect()
}

/// Takes all capabilities out of the bounding set.
fn bound_nothing() -> rustix::io::Result<()> {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        match thread::capability_is_in_bounding_set(one) {
            Ok(true) => thread::remove_capability_from_bounding_set(one)?,
            Ok(false) => {}
            // The kernel knows none of this number, and none behind it.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Does this with the rights to files that the user of an account has, in the calling thread alone, which keeps its other
/// privilege. Threads that are started meanwhile keep those rights.
///
/// # Errors
///
/// This thread may not take that user's rights.
pub fn files_as<T>(account: &Account, work: impl FnOnce() -> T) -> Result<T> {
    let what = || format!("cannot read and write files as {}", account.name);
    let _until_done = FileRights::take(account).context(what)?;
    Ok(work())
}

/// The rights that are given back when this is dropped; none where they are the user's anyway.
struct FileRights(Option<(Vec<Gid>, u32, u32)>);

impl FileRights {
    fn take(account: &Account) -> rustix::io::Result<Self> {
        // (uid_t) -1 is nobody's: it changes nothing and tells who it is.
        let user = set_file_user(u32::MAX);
        if user == account.uid {
            return Ok(Self(None));
        }
        let before = rustix::process::getgroups()?;
        thread::set_thread_groups(&groups_of(account))?;
        let group = set_file_group(account.gid);
        let rights = Self(Some((before, user, group)));
        set_file_user(account.uid);
        if set_file_user(u32::MAX) != account.uid {
            return Err(Errno::PERM);
        }
        Ok(rights)
    }
}

impl Drop for FileRights {
    fn drop(&mut self) {
        if let Some((groups, user, group)) = &self.0 {
            set_file_user(*user);
            set_file_group(*group);
            // Who could change them can change them back.
            let _ = thread::set_thread_groups(groups);
        }
    }
}

/// Whose rights to files the thread has; returns whose it had. A user that is not allowed changes nothing.
fn set_file_user(user: u32) -> u32 {
    // SAFETY: numbers only; the C library's function is about the calling thread alone.
    unsafe { libc::setfsuid(user) }.cast_unsigned()
}

fn set_file_group(group: u32) -> u32 {
    // SAFETY: as above.
    unsafe { libc::setfsgid(group) }.cast_unsigned()
}

/// How long threads may take that are about to give up theirs.
const OTHERS_TIME: Duration = Duration::from_secs(10);

/// That all threads have given up their privilege, or do so now. The process is one of the user's like others from then on: the
/// user may look into it, which the kernel forbids after a change of users as long as nobody says that nothing of the
/// earlier one's is left.
///
/// # Errors
///
/// One does not, which is an error of the program.
pub fn check_threads(account: &Account) -> Result<()> {
    let until = Instant::now() + OTHERS_TIME;
    while let Some(line) = privileged_thread(account)? {
        if Instant::now() > until {
            return Err(Error::new(format!("a thread has kept privilege: {line}"))
                .mend("report this, it is an error of the program"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    set_dumpable_behavior(DumpableBehavior::Dumpable).context(|| "cannot become a user's process")
}

/// A thread of this process that has privilege: what its status says of it.
fn privileged_thread(account: &Account) -> Result<Option<String>> {
    let what = || "cannot look at the threads of this process";
    for task in fs::read_dir("/proc/self/task").context(what)? {
        // One that has just ended has no status.
        let status = fs::read_to_string(task.context(what)?.path().join("status"));
        let status = status.unwrap_or_default();
        if let Some(line) = privileged_line(&status, account) {
            return Ok(Some(line.to_owned()));
        }
    }
    Ok(None)
}

/// What a thread's status (proc(5)) says of privilege that it has.
fn privileged_line<'a>(status: &'a str, account: &Account) -> Option<&'a str> {
    status.lines().find(|line| {
        let (name, values) = line.split_once(':').unwrap_or((line, ""));
        let mut values = values.split_ascii_whitespace();
        match name {
            "Uid" => !values.all(|uid| uid == account.uid.to_string()),
            "Gid" => !values.all(|gid| gid == account.gid.to_string()),
            "CapInh" | "CapPrm" | "CapEff" | "CapAmb" => {
                !values.all(|set| set.bytes().all(|digit| digit == b'0'))
            }
            "NoNewPrivs" => values.next() != Some("1"),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn somebody() -> Account {
        Account {
            name: "somebody".to_owned(),
            uid: 65534,
            gid: 65533,
            groups: vec![7, 65533],
        }
    }

    fn status() -> String {
        fs::read_to_string("/proc/thread-self/status").expect("our own")
    }

    /// Each in a process of its own.
    #[test]
    fn role() {
        let Some(role) = exos_testing::role() else {
            return;
        };
        let account = somebody();
        match &role[..] {
            "given-up" => {
                give_up(&account).expect("root may");
                // The thread that waits for the tests has not.
                let left = privileged_thread(&account).expect("our own");
                assert!(left.is_some_and(|line| line.starts_with("Uid:")));
            }
            "files" => {
                // It is root's alone, as temporary files are.
                let file = tempfile::NamedTempFile::new().expect("root may");
                fs::write(&file, "root's").expect("root may");
                let (before, read) = (status(), || fs::read(&file));
                let refused = files_as(&account, read).expect("root may");
                let kind = refused.expect_err("it is root's").kind();
                assert_eq!(kind, std::io::ErrorKind::PermissionDenied);
                assert_eq!(read().expect("root may again"), b"root's");
                for line in ["Uid:", "Gid:", "Groups:", "CapEff:"] {
                    let of = |status: &str| {
                        status
                            .lines()
                            .find(|l| l.starts_with(line))
                            .map(str::to_owned)
                    };
                    assert_eq!(of(&status()), of(&before));
                }
                exos_testing::done();
            }
            other => panic!("no such role: {other}"),
        }
        let now = status();
        assert_eq!(privileged_line(&now, &account), None, "{now}");
        for line in ["Groups:\t7 65533", "CapBnd:\t0000000000000000"] {
            assert!(now.contains(line), "{line} is not in {now}");
        }
        // There is no way back, and doing it again is none either.
        assert!(thread::set_thread_uid(Uid::ROOT).is_err());
        give_up(&account).expect("it is that user");
        let other = Account { uid: 1, ..account };
        let error = give_up(&other).expect_err("no privilege is left");
        assert!(error.to_string().contains("start it as root"), "{error}");
        exos_testing::done();
    }

    #[test]
    fn what_is_given_up_is_gone_for_good() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: giving up root's privilege needs root");
            return;
        }
        for role in ["given-up", "files"] {
            let ended = exos_testing::play("process::privilege::tests::role", role);
            assert!(exos_testing::is_done(ended), "{role}: {ended}");
        }
    }
}
