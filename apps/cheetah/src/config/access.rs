//! Who may have what: `[[site.access]]`.

use std::path::Path;
use std::sync::Arc;

use toml::Spanned;

use super::schema::{AccessTable, SiteTable};
use crate::limits::{ACCESS_RULES_MAX, RATE_MAX};
use crate::site::rules::access::networks::NetworkRule;
use crate::site::rules::access::rate::Rate;
use crate::site::rules::access::users::Users;
use crate::site::rules::access::{AccessRule, AccessRules};
use crate::site::rules::pattern::Pattern;
use exos_program::config::Source;

/// What a browser shows when it asks for a password, where nothing else is said.
const REALM: &str = "Restricted";

/// The rules of a site. Relative paths begin in `folder`.
pub(super) fn access(source: &Source, folder: &Path, table: &SiteTable) -> AccessRules {
    if let Some(beyond) = table.access.get(ACCESS_RULES_MAX) {
        let what = format!("more than {ACCESS_RULES_MAX} rules about access; write fewer");
        source.note(&beyond.span(), what);
    }
    let rules = table.access.iter();
    AccessRules::new(rules.filter_map(|t| rule(source, folder, t)).collect())
}

fn rule(source: &Source, folder: &Path, table: &Spanned<AccessTable>) -> Option<AccessRule> {
    let (span, table) = (table.span(), table.get_ref());
    let networks = table.rules.as_ref().map(|rules| {
        let rules = rules.iter();
        rules
            .filter_map(|text| source.value(text, NetworkRule::parse))
            .collect()
    });
    let rule = AccessRule {
        pattern: match &table.path {
            Some(path) => source.value(path, Pattern::parse)?,
            None => {
                source.note_missing(
                    &span,
                    "the rule is about no path; write path = \"/admin/*\"",
                );
                return None;
            }
        },
        networks,
        rate: rate(source, table),
        users: users(source, folder, table),
    };
    if rule.networks.is_none() && table.rate.is_none() && table.users.is_none() {
        let what =
            "the rule says nothing; write rules = [\"deny all\"], rate = 10, or users = \"FILE\"";
        source.note_missing(&span, what);
    }
    Some(rule)
}

/// `rate` and `burst`; a rate of 0 is none.
fn rate(source: &Source, table: &AccessTable) -> Option<Option<Arc<Rate>>> {
    let Some(number) = &table.rate else {
        if let Some(burst) = &table.burst {
            source.note_missing(&burst.span(), "a burst of no rate; write rate = 10 too");
        }
        return None;
    };
    let per_second = source.number(number, 0, RATE_MAX)? as u32;
    let burst = match &table.burst {
        Some(burst) => source.number(burst, 0, RATE_MAX)? as u32,
        None => per_second,
    };
    Some((per_second > 0).then(|| Arc::new(Rate::new(per_second, burst))))
}

/// `users` and `realm`; an empty file name is nobody's.
fn users(source: &Source, folder: &Path, table: &AccessTable) -> Option<Option<Arc<Users>>> {
    let realm = table.realm.as_ref();
    let realm = realm.map(|text| source.value(text, check_realm).unwrap_or_default());
    let file = table.users.as_ref()?;
    if file.get_ref().is_empty() {
        return Some(None);
    }
    let realm = realm.unwrap_or_else(|| REALM.to_owned());
    // It is read with the documents, as the user that the server becomes.
    let users = Users::of(&folder.join(file.get_ref()), &realm);
    Some(Some(Arc::new(users)))
}

/// A text that needs no quoting (RFC 9110 §5.6.4).
fn check_realm(text: &str) -> Result<String, String> {
    let is_plain = |b: u8| (0x20..0x7f).contains(&b) && !b"\"\\".contains(&b);
    match text.bytes().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{text:?} is no realm; write ASCII without quotes and backslashes"
        )),
    }
}
