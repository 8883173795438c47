//! Names of users and groups, from /etc/passwd and /etc/group, and the account that a program is to have ([`Account`]).
//!
//! Other sources (LDAP and the like) would need the C library's plug-ins in a privileged process; there a policy, or an
//! option, names numbers.

use std::str::FromStr;

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// The number that means "no change" to setresuid(2) and setresgid(2), and that nothing has.
const NO_ID: u32 = u32::MAX;

/// A user that a program can become, with its groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// As it was written.
    pub name: String,
    /// The user; never root, and never [`u32::MAX`], as the group is not.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// All groups that it is in, that one included; sorted.
    pub groups: Vec<u32>,
}

impl FromStr for Account {
    type Err = String;

    /// `NAME` or `NAME:GROUP`, each a name or a number.
    fn from_str(text: &str) -> Result<Self, String> {
        let read = |file| std::fs::read_to_string(file).unwrap_or_default();
        Self::find(text, &read(USERS), &read(GROUPS))
    }
}

impl Account {
    fn find(text: &str, users: &str, groups: &str) -> Result<Self, String> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let number = |file: &str, name: &str| name.parse().ok().or_else(|| number_in(file, name));
        let uid = number(users, user).ok_or_else(|| format!("there is no user {user:?}"))?;
        if uid == 0 {
            return Err(
                "that is root, whose privilege is to be given up; name another user".into(),
            );
        }
        let gid = match group {
            Some(group) => {
                number(groups, group).ok_or_else(|| format!("there is no group {group:?}"))?
            }
            None => group_of(users, uid)
                .ok_or_else(|| format!("user {user} has no group here; write {user}:GROUP"))?,
        };
        if [uid, gid].contains(&NO_ID) {
            return Err(format!(
                "{NO_ID} is no user and no group: the kernel takes it for \"leave it as it is\"; name another"
            ));
        }
        let mut all = name_in(users, uid).map_or_else(Vec::new, |name| groups_of(groups, name));
        all.push(gid);
        all.sort_unstable();
        all.dedup();
        Ok(Self {
            name: text.to_owned(),
            uid,
            gid,
            groups: all,
        })
    }
}

/// A user by name or number.
pub fn user(name: &str) -> Option<u32> {
    number(USERS, name)
}

/// A group by name or number.
pub fn group(name: &str) -> Option<u32> {
    number(GROUPS, name)
}

/// Whether a user has an account.
pub fn has_user(uid: u32) -> bool {
    let file = std::fs::read_to_string(USERS).unwrap_or_default();
    name_in(&file, uid).is_some()
}

/// A user's name, or the number when it has none.
pub fn user_name(uid: u32) -> String {
    let file = std::fs::read_to_string(USERS).unwrap_or_default();
    name_in(&file, uid).map_or_else(|| uid.to_string(), str::to_owned)
}

fn number(file: &str, name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    number_in(&std::fs::read_to_string(file).ok()?, name)
}

/// Both files: name, password, number, separated by colons.
fn number_in(file: &str, name: &str) -> Option<u32> {
    file.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

fn name_in(file: &str, number: u32) -> Option<&str> {
    file.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then_some(name)
    })
}

/// The group of a user in /etc/passwd: the field behind its number.
fn group_of(users: &str, uid: u32) -> Option<u32> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        (fields.next()?.parse() == Ok(uid)).then(|| fields.next()?.parse().ok())?
    })
}

/// The groups in /etc/group that name a user: `name:password:number:user,user`.
fn groups_of(groups: &str, user: &str) -> Vec<u32> {
    let number = |line: &str| {
        let mut fields = line.split(':').skip(2);
        let (number, members) = (fields.next()?.parse().ok()?, fields.next()?);
        members.split(',').any(|it| it == user).then_some(number)
    };
    groups.lines().filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_all_its_groups_and_is_not_root() {
        let users = "root:x:0:0::/:\nwww-data:x:33:33::/:\nadmin:x:0:7::/:\n";
        let groups = "adm:x:4:syslog,www-data\nwww-data:x:33:\nssl:x:104:www-data2\n";
        let find = |text| Account::find(text, users, groups);
        let account = |name: &str, uid, gid, groups: &[u32]| {
            let (name, groups) = (name.to_owned(), groups.to_vec());
            Ok(Account {
                name,
                uid,
                gid,
                groups,
            })
        };
        assert_eq!(find("www-data"), account("www-data", 33, 33, &[4, 33]));
        assert_eq!(find("33:adm"), account("33:adm", 33, 4, &[4]));
        assert_eq!(find("www-data:9"), account("www-data:9", 33, 9, &[4, 9]));
        assert_eq!(
            find("70000:70000"),
            account("70000:70000", 70000, 70000, &[70000])
        );
        for (text, said) in [
            ("", "no user \"\""),
            ("nobody", "no user \"nobody\""),
            ("www-data:ad", "no group \"ad\""),
            ("70000", "write 70000:GROUP"),
            ("root", "that is root"),
            ("0", "that is root"),
            ("admin:adm", "that is root"),
            ("www-data:", "no group"),
            ("4294967295:4294967295", "no user and no group"),
            ("4294967295:33", "no user and no group"),
            ("33:4294967295", "no user and no group"),
        ] {
            let error = find(text).expect_err(text);
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn names_are_found_and_prefixes_of_names_are_not() {
        let file = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/:\nwww:x:34:34::/:\nbroken\n";
        assert_eq!(number_in(file, "www"), Some(34));
        assert_eq!(number_in(file, "ww"), None);
        assert_eq!(number_in(file, "broken"), None);
        assert_eq!(name_in(file, 33), Some("www-data"));
        assert_eq!(name_in(file, 7), None);
        assert_eq!(user("4711"), Some(4711));
    }
}
