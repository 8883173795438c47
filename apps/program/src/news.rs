//! What a program says and does when the daemon that lends its link goes or takes it back.

use exos::via::{Lost, News, Via};
use exos::{Error, Exos};

/// Tells a person what has happened to a link that the daemon lends. True when the daemon takes it back, or the
/// last grant: the program should end in order, and with [`taken_back`].
pub fn tell_news(program: &str, exos: &mut Exos) -> bool {
    tell(program, exos, |_| true)
}

/// As [`tell_news`], of another core than the first. That the daemon goes and comes back the first one tells; the rest is of each core's part.
pub fn tell_losses(program: &str, exos: &mut Exos) -> bool {
    tell(program, exos, |news| {
        !matches!(news, News::Away | News::Back)
    })
}

fn tell(program: &str, exos: &mut Exos, is_told: fn(&News) -> bool) -> bool {
    let mut over = false;
    while let Some(news) = exos.poll_news() {
        over |= match &news {
            News::Revoked { what, .. } => is_all(*what, exos),
            News::Away | News::Back | News::HandlerDropped => false,
        };
        if is_told(&news) {
            crate::warn!("exos {program}: {}", news.sentence());
        }
    }
    over
}

/// Whether nothing is left without it.
fn is_all(lost: Lost, exos: &mut Exos) -> bool {
    let kept = |via: &mut Via| via.grants_kept().next().is_some();
    match lost {
        Lost::Link => true,
        Lost::Grant(_) => !exos.via().is_some_and(kept),
        Lost::Rate(_) => false,
    }
}

/// Why a program ended that nobody asked to.
pub fn taken_back() -> Error {
    Error::new("ended because the daemon took the link back")
}
