//! Which answers of upstreams are kept: `cache` of `[[site.proxy]]`.

use toml::Spanned;

use super::schema::{CacheOf, ProxyCacheTable};
use super::units::size_within;
use crate::caching::CacheRules;
use crate::limits::ANSWER_LEN_MAX;
use crate::site::rules::access::networks::parse_network;
use exos::wire::Prefix;
use exos_program::config::Source;
use exos_program::units::parse_duration;

/// What is said of keeping the answers of a rule; nothing where none are.
pub(super) fn rules(source: &Source, said: Option<&Spanned<CacheOf>>) -> Option<CacheRules> {
    let said = said?;
    match said.get_ref() {
        CacheOf::Is(false) => None,
        CacheOf::Is(true) => Some(CacheRules::default()),
        CacheOf::With(table) => match of(table) {
            Ok(rules) => Some(rules),
            Err(what) => {
                source.note(&said.span(), what);
                None
            }
        },
    }
}

fn of(table: &ProxyCacheTable) -> Result<CacheRules, String> {
    let by_default = CacheRules::default();
    let len = |text: &String| size_within(text, 1, ANSWER_LEN_MAX);
    let len = table.answer.as_ref().map(len).transpose()?;
    let share = table.share.as_deref().map(percent).transpose()?;
    let purgers = table.purge.iter().map(|text| parse_network(text)).collect();
    let purgers: Result<Vec<Prefix>, String> = purgers;
    let time = |text: &Option<String>| text.as_deref().map(parse_duration).transpose();
    Ok(CacheRules {
        answer_len_max: len.unwrap_or(by_default.answer_len_max),
        share_percent: share.unwrap_or(by_default.share_percent),
        obeys_clients: table.obey_clients.unwrap_or(by_default.obeys_clients),
        heuristic: time(&table.guess)?.filter(|time| !time.is_zero()),
        stale_while_revalidate: time(&table.stale_while_revalidate)?.unwrap_or_default(),
        stale_if_error: time(&table.stale_if_error)?.unwrap_or_default(),
        purgers: purgers?,
        ..by_default
    })
}

fn percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').map(str::trim_end);
    let number = number.and_then(|text| text.parse().ok());
    let number = number.filter(|number| (1..=90).contains(number));
    number.ok_or_else(|| {
        format!("{text:?} is no share of the cache; write one from \"1%\" to \"90%\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_is_said() {
        let table = |key: &str, text: &str| ProxyCacheTable {
            answer: (key == "answer").then(|| text.to_owned()),
            share: (key == "share").then(|| text.to_owned()),
            stale_if_error: (key == "stale").then(|| text.to_owned()),
            purge: Vec::from_iter((key == "purge").then(|| text.to_owned())),
            ..ProxyCacheTable::default()
        };
        for (key, text, wanted) in [
            ("answer", "65MiB", "to 64MiB"),
            ("answer", "0", "from 1"),
            ("share", "0%", "\"1%\" to \"90%\""),
            ("share", "91%", "\"1%\" to \"90%\""),
            ("share", "50", "\"1%\" to \"90%\""),
            ("stale", "9000h", "longer than a week"),
            ("purge", "somebody", "somebody"),
        ] {
            let error = of(&table(key, text)).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
        let good = of(&table("share", "25 %")).unwrap();
        assert_eq!(good.share_percent, 25);
    }
}
