//! What stays of more documents than fit into memory, by each policy: hits by object and by byte of generated requests (*IO-Lite*, section 4.3).
//!
//! Nothing is measured but the policies' decisions; each run has another trace, which all of them have.

use crate::experiment::figure::{Figures, Goal};
use exos_inet::siphash::Random;
use exos_replacement::PolicyName;
use exos_replacement::trace::{Simulated, requests, sizes};

/// As many as have the paper's bytes a request, and more than are asked for often.
const DOCUMENTS: usize = 10_000;
const REQUESTS: usize = 200_000;

/// Of the documents' bytes memory has this part.
pub(super) const PARTS: [u64; 5] = [40, 20, 10, 4, 2];

/// The hits of each policy, and their ratios to LRU's, with memory for a part of the bytes.
pub(super) fn measure(name: &str, seed: u64, part: u64, figures: &mut Figures) {
    let mut random = Random::new(seed);
    let mut random = || random.next_u64();
    let sizes = sizes(&mut random, DOCUMENTS);
    let requests = requests(&mut random, DOCUMENTS, REQUESTS);
    let limit = sizes.iter().sum::<u64>() / part;
    let hits_of = |policy: PolicyName| {
        Simulated::new(policy.policy(), limit, DOCUMENTS).hits(&requests, &sizes)
    };
    let lru = hits_of(PolicyName::Lru);
    for policy in PolicyName::ALL {
        let hits = hits_of(policy);
        for (by, unit, part, of_lru) in [
            ("by-object", "of requests", hits.by_object, lru.by_object),
            ("by-byte", "of bytes", hits.by_byte, lru.by_byte),
        ] {
            let name = format!("{name}/{policy}/{by}");
            figures.add(name.clone(), unit, part);
            let name = format!("{name}/by-lru");
            match policy {
                PolicyName::Lru => {}
                PolicyName::S3Fifo => {
                    figures.add_goal(name, "", Goal::AtLeast(1.0), part / of_lru);
                }
                PolicyName::GreedyDualSize => figures.add(name, "", part / of_lru),
            }
        }
    }
}
