//! What the page shows of figures beside their tables: bars of throughput, of *IO-Lite*'s Figure 8, and of hits by the size of a cache.

use crate::experiment::comparison::{ALONE, Comparison};
use crate::experiment::figure::Figure;
use crate::report::figure::Figure as Chart;

/// By the group whose section has them.
const COMPARISONS: [(&str, Comparison); 3] = [
    (
        "pipes",
        Comparison {
            title: "Messages from one process to another",
            note: "",
            label: "MB/s",
            names: "pipes/GROUP/KIND/SERIES",
            kinds: &[["Every byte is looked at", "sum"], ["None is", "take"]],
            groups: &[["8 KB", "8192"], ["64 KB", "65536"]],
            series: &[
                "ours",
                "ours-sleeping",
                "ours-untrusted",
                "pipe",
                "large-pipe",
                "vmsplice",
                "socket",
            ],
        },
    ),
    (
        "tools",
        Comparison {
            title: "How long tools take",
            note: "IO-Lite's Figure 8.",
            label: "ms",
            names: "tools/GROUP/SERIES",
            kinds: ALONE,
            groups: &[
                ["wc, 1.75 MB", "wc/1750000"],
                ["wc, 64 MB", "wc/64000000"],
                ["cat | grep, 1.75 MB", "cat-grep/1750000"],
                ["cat | grep, 64 MB", "cat-grep/64000000"],
                ["permute | wc", "permute-wc"],
            ],
            series: &["ours", "gnu"],
        },
    ),
    (
        "policies",
        Comparison {
            title: "What is in a cache when it is asked for",
            note: "By the bytes of the cache, of those of all documents.",
            label: "of all that is asked for",
            names: "policies/GROUP/SERIES/KIND",
            kinds: &[["Requests", "by-object"], ["Bytes", "by-byte"]],
            groups: &[
                ["1/40", "40"],
                ["1/20", "20"],
                ["1/10", "10"],
                ["1/4", "4"],
                ["1/2", "2"],
            ],
            series: &["s3-fifo", "lru", "gds"],
        },
    ),
];

/// The charts of a group's section.
pub(super) fn of(title: &str, figures: &[Figure]) -> Vec<Chart> {
    Comparison::drawn_of(&COMPARISONS, title, figures).collect()
}
