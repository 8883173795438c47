//! Every bound of `exos run`, with its reason.

use std::time::Duration;

/// Sockets that were bound and have not listened or connected. Those that are closed before are not heard of: the oldest make room.
pub(crate) const BOUND_MAX: usize = 4096;

/// What is read of a Unix socket, or written to one, at once: what its buffer holds, roughly (net.core.wmem_default is 208 KiB).
pub(crate) const PIECE: usize = 128 << 10;

/// Datagrams of a shared socket that are sent before others have their turn.
pub(crate) const DATAGRAMS_AT_ONCE: usize = 256;

/// How long what the program has written is delivered behind its end.
pub(crate) const GOODBYE_TIME: Duration = Duration::from_secs(5);

/// For how long requests to end are the same one: timeout(1) asks a process and at once its group, as do shells and service managers.
pub(crate) const ONE_REQUEST: Duration = Duration::from_secs(1);

/// How long the program's guard waits for a request that the whole process group may have, of which the program is one, before it passes
/// it on to that.
pub(crate) const GROUP_TIME: Duration = Duration::from_millis(50);

/// For how long the guard remembers such a request, which may come to it first: until `exos run` has heard of it, on a busy machine.
pub(crate) const GROUP_MEMORY: Duration = Duration::from_millis(500);

/// How often it is looked whether those that are killed are all: some fork meanwhile.
pub(crate) const LEFT_LOOK: Duration = Duration::from_millis(10);

/// How often it is looked whether all is delivered.
pub(crate) const DELIVERY_LOOK: Duration = Duration::from_millis(10);

/// Connections of this host with itself that wait with us for the program to accept them, each a descriptor; more wait in the kernel's
/// queue.
pub(crate) const LOOPBACK_WAITING: usize = 8;

/// Ports that are tried for a socket for datagrams that is at all addresses, and asks for none, until one is free by loopback, too: of
/// those that the stack gives out this host has a few.
pub(crate) const PORT_TRIES: u32 = 10;

/// After how long a listener is asked again that has failed, for want of descriptors.
pub(crate) const LATER: Duration = Duration::from_millis(50);

/// Calls that are answered before packets are looked at again.
pub(crate) const CALLS_AT_ONCE: usize = 64;

/// Bytes of printed calls that are passed on before packets are looked at again: what a pipe holds (pipe(7)).
pub(crate) const TRACED_AT_ONCE: usize = 1 << 16;

/// Bytes of printed calls that wait for their reader, and as many that are being written: some 10,000 calls.
pub(crate) const TRACED_WAITING: usize = 1 << 20;

/// What is read of an ELF file at once: the names of the largest programs (Chromium's are 3 MB).
pub(crate) const ELF_PART: u64 = 16 << 20;

/// Instructions of a program, or of a library, that are searched for calls, in bytes: some 20 ms.
pub(crate) const CODE_BYTES: u64 = 64 << 20;

/// Bytes of a path (PATH_MAX).
pub(crate) const PATH_BYTES: u64 = 4096;

/// What the kernel looks at of a script's first line (BINPRM_BUF_SIZE).
pub(crate) const SCRIPT_LINE: u64 = 256;

/// Scripts whose interpreters are scripts; with more the kernel gives up (ELOOP).
pub(crate) const SCRIPTS_NESTED: usize = 5;

/// Files of which it is remembered what was found of them: as many programs, and as many libraries.
pub(crate) const KNOWN_FILES: usize = 1024;

/// Libraries that are looked into. Desktop programs name some 200, with all that these name.
pub(crate) const LIBRARIES: usize = 256;

/// Folders that one file names for its libraries: programs name a handful, those of Nix one for each package that they use.
pub(crate) const FOLDERS: usize = 64;

/// Bytes of a list of such folders: that many, of long names.
pub(crate) const FOLDERS_BYTES: usize = FOLDERS * 256;

/// Looks for all libraries of a program: that many libraries, in 32 folders each. They take some tens of milliseconds.
pub(crate) const LIBRARY_LOOKS: usize = LIBRARIES * 32;

/// Variables of an environment that are looked at.
pub(crate) const ENVIRONMENT: u64 = 4096;
