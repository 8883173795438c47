//! Several cores: each has a share of the queues of every link, a stack on each, and a loop. The flows are all cores' together.
//!
//! A device brings a client's packets by one queue and the answers to them by another: on several cores each has one half of a flow
//! to deal with. So the [`table`] of flows is one, behind a lock that a core takes for the packets of a turn: what it does with them
//! there is a tenth of its work, and the rest, their ways in and out, all cores do at the same time. Limits, statistics, ports and
//! kept flows are therefore those of the forwarder, whatever the number of cores.
//!
//! | file | what is in it |
//! |---|---|
//! | `table` | what cores have in common, and its lock |
//! | `core_loop` | one core's turns |
//! | `worker` | what cores ask of one another, and what each has counted |
//! | `other_core` | the cores but the first, from start to end |

pub(crate) mod core_loop;
pub(crate) mod other_core;
pub(crate) mod table;
pub(crate) mod worker;
