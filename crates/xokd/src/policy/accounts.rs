//! Names of users and groups, from /etc/passwd and /etc/group.
//!
//! Other sources (LDAP and the like) would need the C library's plug-ins in a privileged process; there a policy
//! names numbers.

/// A user by name or number.
pub(super) fn user(name: &str) -> Option<u32> {
    number("/etc/passwd", name)
}

/// A group by name or number.
pub(super) fn group(name: &str) -> Option<u32> {
    number("/etc/group", name)
}

/// A user's name, or the number when it has none.
pub(super) fn user_name(uid: u32) -> String {
    let file = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;

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
