//! What a program does while it has nothing to do.

use exos_host::affinity;

/// What a program does while it has nothing to do, and more may come soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// Keep polling while traffic is under way or due soon.
    Poll,
    /// Sleep until woken.
    Sleep,
}

impl Idle {
    /// As it was said. If nothing was, a program whose loops are on all cores that it may run on sleeps: others may have but these
    /// too. To be asked before a thread is pinned to one of them.
    pub fn or_by_room(said: Option<Self>, loops: usize) -> Self {
        let cores = affinity::allowed().map_or(1, |cores| cores.len());
        said.unwrap_or(if cores > loops {
            Self::Poll
        } else {
            Self::Sleep
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Anyone who leaves a core to others looks on.
    #[test]
    fn who_takes_all_cores_sleeps() {
        let all = affinity::allowed().unwrap().len();
        assert_eq!(Idle::or_by_room(None, all), Idle::Sleep);
        assert_eq!(Idle::or_by_room(None, all - 1), Idle::Poll);
        for said in [Idle::Poll, Idle::Sleep] {
            for loops in [all, all - 1] {
                assert_eq!(Idle::or_by_room(Some(said), loops), said);
            }
        }
    }
}
