//! What a program says and does when the daemon that lends its link goes or takes it back.

use exos::via::News;
use exos::{Error, Exos};

/// Tells a person what has happened to a link that the daemon lends. True when the daemon takes it
/// back: the program should end in order, and with [`taken_back`].
pub fn tell_news(program: &str, exos: &mut Exos) -> bool {
    let mut over = false;
    while let Some(news) = exos.poll_news() {
        over |= matches!(news, News::Revoked { .. });
        eprintln!("exos {program}: {}", news.sentence());
    }
    over
}

/// Why a program ended that nobody asked to.
pub fn taken_back() -> Error {
    Error::new("ended because the daemon took the link back")
}
