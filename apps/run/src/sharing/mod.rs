//! Sockets in memory that is shared with the programs that use them.
//!
//! What a program does to its sockets it notes in the memory, and we look at that between packets; what comes, we note there, and wake
//! those that sleep, all that a turn has to tell at once. While there is something to do we look again within a tenth of a
//! millisecond, so that a program need not wake us for each call.
//!
//! | file | job |
//! |---|---|
//! | `engine`, `gathering` | what the loop does with all of it; when programs are looked at |
//! | `asked` | what programs ask for by way of the library |
//! | `processes`, `library`, `credentials` | the processes; what is loaded into them; which may open it |
//! | `sockets`, `table`, `entry`, `addresses`, `marks` | the sockets, by their numbers; addresses as they stand in the memory; what their descriptors are |
//! | `news` | who is to be woken |
//! | `opening`, `untouched`, `binding` | how a socket comes to be a shared one, and one that is as it was made; where those for datagrams are bound, whom they are connected to |
//! | `turns`, `flowing`, `datagrams` | what goes on with one; bytes and datagrams between its rings and the stack |
//! | `unsharing` | how one comes to go by a Unix socket |

mod addresses;
mod asked;
mod binding;
mod credentials;
mod datagrams;
mod engine;
mod entry;
mod flowing;
mod gathering;
mod library;
mod marks;
mod news;
mod opening;
mod processes;
mod sockets;
mod table;
mod turns;
mod unsharing;
mod untouched;

pub(crate) use self::engine::Sharing;
pub(crate) use self::sockets::{SHARED, SharedSockets, is_of_shared};
