//! How upstreams are asked whether they are well: `check` of `[[site.proxy]]`.

use toml::Spanned;

use super::schema::{CheckTable, Text};
use super::units::application_time;
use crate::applications::proxy::CheckRules;
use crate::limits::{CHECK_COUNT_MAX, CHECK_FAILS, CHECK_INTERVAL, CHECK_PASSES, CHECK_TIME};
use crate::message::target::is_authority;
use exos_program::config::Source;

/// What is said of it; nothing where that is wrong.
pub(super) fn rules(source: &Source, table: &Spanned<CheckTable>) -> Option<CheckRules> {
    let (span, table) = (table.span(), table.get_ref());
    let Some(path) = &table.path else {
        source.note_missing(&span, "nothing is asked for; write path = \"/health\"");
        return None;
    };
    let time = |text: &Option<Text>| source.value(text.as_ref()?, application_time);
    let count = |number: Option<_>| source.number(number?, 1, CHECK_COUNT_MAX);
    let count = |number| count(number).and_then(|count| u32::try_from(count).ok());
    let host = table.host.as_ref();
    Some(CheckRules {
        path: source.value(path, target)?,
        host: host.and_then(|text| source.value(text, host_field)),
        interval: time(&table.interval).unwrap_or(CHECK_INTERVAL),
        timeout: time(&table.timeout).unwrap_or(CHECK_TIME),
        fails: count(table.fails.as_ref()).unwrap_or(CHECK_FAILS),
        passes: count(table.passes.as_ref()).unwrap_or(CHECK_PASSES),
    })
}

fn target(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
    match text.starts_with('/') && is_plain {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is no path; write one as \"/health\"")),
    }
}

fn host_field(text: &str) -> Result<String, String> {
    match !text.is_empty() && is_authority(text.as_bytes()) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is no host; write a name")),
    }
}
