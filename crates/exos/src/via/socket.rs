//! Where the daemon listens.

use std::path::{Path, PathBuf};

/// Where the daemon listens when nothing else is said.
pub const SOCKET: &str = "/run/exos/xokd.sock";

/// The variable of the environment that says it otherwise.
pub const SOCKET_VARIABLE: &str = "EXOS_XOKD";

/// Where the daemon listens, by the environment or by custom.
pub fn socket_path() -> PathBuf {
    std::env::var_os(SOCKET_VARIABLE).map_or_else(|| PathBuf::from(SOCKET), PathBuf::from)
}

/// True when a daemon's socket is there, whether or not it listens.
pub fn is_there(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|file| file.file_type().is_socket())
}
