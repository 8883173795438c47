//! The libraries of a program, and theirs, looked for as the loader does (ld.so(8)).

use std::collections::{BTreeSet, VecDeque};
use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::elf::Elf;
use crate::limits::{LIBRARIES, LIBRARY_LOOKS};

/// The GNU C library's name.
pub(super) const C_LIBRARY: &str = "libc.so.6";

/// The libraries that it consists of, which call the kernel by themselves.
const C_LIBRARY_PARTS: [&str; 9] = [
    "libc",
    "libm",
    "libpthread",
    "libdl",
    "librt",
    "libresolv",
    "libanl",
    "libnsl",
    "libutil",
];

/// What the libraries of a program are.
#[derive(Debug, Default)]
pub(super) struct Libraries {
    names: BTreeSet<String>,
    files: Vec<PathBuf>,
    /// Named, and not found here.
    pub missing: Vec<String>,
}

impl Libraries {
    /// Those of a program, which lies at `path`.
    pub fn of(program: &Elf, path: &Path) -> Self {
        let mut found = Self::default();
        let mut next: VecDeque<String> = program.needed.clone().into();
        let mut folders = named_folders(program, path);
        folders.extend(usual_folders());
        let mut looks = LIBRARY_LOOKS;
        while let Some(name) = next.pop_front() {
            if found.names.len() >= LIBRARIES || !found.names.insert(name.clone()) {
                continue;
            }
            // What these say of where theirs are holds for all of them here: it is where they are in practice.
            match find(&name, &folders, program, &mut looks) {
                Some((library, path)) => {
                    folders.splice(0..0, named_folders(&library, &path));
                    next.extend(library.needed);
                    found.files.push(path);
                }
                None => found.missing.push(name),
            }
        }
        found
    }

    /// The files of those that are not the GNU C library's.
    pub fn others(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path).filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.split('.').next().unwrap_or_default();
            !name.starts_with("ld-linux") && !C_LIBRARY_PARTS.contains(&name)
        })
    }

    /// Whether one of them is of this name, in any version.
    pub fn has(&self, name: &str) -> bool {
        let is_it = |library: &String| {
            let rest = library.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.names.iter().any(is_it)
    }
}

/// A library of the program's machine, with as many looks as are left.
fn find(
    name: &str,
    folders: &[PathBuf],
    program: &Elf,
    looks: &mut usize,
) -> Option<(Elf, PathBuf)> {
    // A name with a slash is the whole path.
    let folders = match name.contains('/') {
        true => &[PathBuf::new()],
        false => folders,
    };
    let look = |folder: &PathBuf| {
        *looks = looks.checked_sub(1)?;
        Some(folder.join(name))
    };
    folders
        .iter()
        .map_while(look)
        .filter(|path| path.is_file())
        .find_map(|path| {
            let library = Elf::library(File::open(&path).ok()?).ok()?;
            (library.machine == program.machine).then_some((library, path))
        })
}

/// Where a program, or a library, says that its libraries are.
fn named_folders(elf: &Elf, path: &Path) -> Vec<PathBuf> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let origin = path.parent().unwrap_or(Path::new("/")).to_string_lossy();
    let place = |folder: &String| {
        let folder = folder.replace("$ORIGIN", &origin);
        PathBuf::from(folder.replace("${ORIGIN}", &origin))
    };
    elf.run_path.iter().map(place).collect()
}

/// Where libraries are usually.
fn usual_folders() -> Vec<PathBuf> {
    let said = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let said = env::split_paths(&said).filter(|folder| !folder.as_os_str().is_empty());
    // Debian has those of each machine in a directory of their own.
    let triplet = format!("{}-linux-gnu", env::consts::ARCH);
    let roots = ["/usr/local/lib", "/lib", "/usr/lib"].map(Path::new);
    let usual = roots
        .iter()
        .flat_map(|root| [root.join(&triplet), (*root).to_owned()]);
    let long = ["/lib64", "/usr/lib64"].map(PathBuf::from);
    said.chain(usual).chain(long).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_libraries_are_found() {
        let path = Path::new("/proc/self/exe");
        let mut program = Elf::read(File::open(path).expect("this program")).expect("it runs");
        let libraries = Libraries::of(&program, path);
        assert!(
            libraries.has(C_LIBRARY) && libraries.missing.is_empty(),
            "{libraries:?}"
        );
        assert!(
            libraries.has("libc.so") && !libraries.has("libc.s") && !libraries.has("liburing.so")
        );
        // Only by the compiler's, which needs it too.
        program.needed = vec!["libgcc_s.so.1".to_owned(), "libnowhere.so.1".to_owned()];
        let libraries = Libraries::of(&program, path);
        assert!(libraries.has(C_LIBRARY), "{libraries:?}");
        assert_eq!(libraries.missing, ["libnowhere.so.1"]);
    }

    #[test]
    fn looks_are_bounded() {
        let path = Path::new("/proc/self/exe");
        let program = Elf::read(File::open(path).expect("this program")).expect("it runs");
        let folders = vec![PathBuf::from("/no/such/folder"); 100];
        let mut looks = 150;
        for left in [50, 0, 0] {
            assert!(find(C_LIBRARY, &folders, &program, &mut looks).is_none());
            assert_eq!(looks, left);
        }
        // None is left even for one that is there.
        assert!(find("/proc/self/exe", &folders, &program, &mut looks).is_none());
        looks = 1;
        assert!(find("/proc/self/exe", &folders, &program, &mut looks).is_some());
    }
}
