//! What a program is called where its packets are offered.

use std::path::Path;

/// The name that others see: that of the command, of a program with several.
pub(crate) fn program_name() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let file = Path::new(&program).file_name();
    let name = file.map_or(program.clone(), |name| name.to_string_lossy().into_owned());
    match words.next() {
        Some(command) if name == "exos" && !command.starts_with('-') => command,
        _ => name,
    }
}
