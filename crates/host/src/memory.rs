//! How much memory there is for this process: what the machine has, or what its control group may have. And memory for
//! large tables.

use procfs::{Current as _, Meminfo};
use std::fs;
use std::path::{Path, PathBuf};

/// Where control groups are.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Bytes of memory that this process may have at most; `None` where the kernel does not tell.
pub fn total() -> Option<u64> {
    let machine = Meminfo::current().ok()?;
    Some(machine.mem_total.min(of_control_group()))
}

/// Bytes of memory that are to be had without anything else being pushed out; `None` where the kernel does not tell.
pub fn available() -> Option<u64> {
    let machine = Meminfo::current().ok()?;
    Some(machine.mem_available?.min(of_control_group()))
}

/// Asks the kernel to keep a large table in large pages: where it is read here and there, the processor then finds its
/// addresses in a cache, and not in memory. To be asked before the table is used; memory is taken as before, a large page
/// at a time. A kernel without large pages keeps small ones.
pub fn prefer_large_pages<T>(table: &[T]) {
    let bytes = table.as_ptr_range();
    let page = rustix::param::page_size();
    let begin = bytes.start.addr().next_multiple_of(page);
    let len = (bytes.end.addr() & !(page - 1)).saturating_sub(begin);
    if len > 0 {
        let at = bytes.start.with_addr(begin).cast_mut();
        // SAFETY: whole pages of memory that is lent to us; neither what is in them nor where they are changes.
        let _ = unsafe { libc::madvise(at.cast(), len, libc::MADV_HUGEPAGE) };
    }
}

/// Has the processor fetch memory that is going to be read, and goes on at once. Nothing is read: what is there may be
/// anything, and where the processor has no such instruction that is known here, nothing happens.
#[inline]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: changes nothing but caches, and every processor of this architecture has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: changes nothing but caches; reads and writes no register but that of the address.
    unsafe {
        let place = std::ptr::from_ref(place);
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = place;
}

/// Gives the kernel back what the allocator keeps of memory that was freed. The C library gives back by itself no more than
/// the ends of its heaps, so that one block in use keeps all that lies below it. To be called on a thread that nobody waits for, after
/// much was freed: threads that need memory of a heap wait while its free pages are unmapped, some milliseconds for 100 MB.
/// Does nothing where the C library is not glibc.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no memory that is in use is touched; it locks what it works on.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Has the allocator make at most this many heaps, which its threads share: one for each loop. Each heap keeps its end, however
/// little is in use. To be called before threads are started. Does nothing where the C library is not glibc.
pub fn limit_heaps(count: usize) {
    #[cfg(target_env = "gnu")]
    {
        let count = libc::c_int::try_from(count).unwrap_or(libc::c_int::MAX);
        // SAFETY: it changes a number that new threads look at.
        let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, count.max(1)) };
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = count;
}

fn of_control_group() -> u64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    least_limit(Path::new(CGROUPS), &groups)
}

/// The least limit of a process's control groups and those that these are in. `groups` is its `/proc/PID/cgroup`
/// (cgroups(7)): lines of `number:controllers:path`, without controllers for version 2.
fn least_limit(root: &Path, groups: &str) -> u64 {
    let mut least = u64::MAX;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            least = least.min(limit(&root.join(group), file).unwrap_or(u64::MAX));
        }
    }
    least
}

/// The limit of one group; the word `max` is none.
fn limit(group: &Path, file: &str) -> Option<u64> {
    let path: PathBuf = group.join(file);
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the table, from nothing to several large pages: what is in it stays.
    #[test]
    fn tables_are_kept_in_large_pages_as_they_are() {
        for len in [0, 1, 4096, 3 << 20] {
            let table: Vec<u8> = (0..len).map(|n| n as u8).collect();
            prefer_large_pages(&table);
            assert!((0..len).all(|n| table[n] == n as u8));
        }
        prefer_large_pages::<()>(&[(), ()]);
    }

    #[test]
    fn this_machine_has_memory() {
        let (total, available) = (total().unwrap(), available().unwrap());
        assert!(
            total >= available && available > 0,
            "{available} of {total}"
        );
    }

    /// The limit of a group above counts too, and what is not there or has no limit does not.
    #[test]
    fn the_least_limit_counts() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/memory.max", "3000\n");
        write("a/b/memory.max", "max\n");
        write("c/memory.max", "7000\n");
        write("memory/d/memory.limit_in_bytes", "5000\n");
        for (groups, least) in [
            ("0::/a/b\n", 3000),
            ("0::/a/b/not-there\n", 3000),
            ("0::/c\n", 7000),
            ("4:cpu,memory:/d\n0::/c\n", 5000),
            ("4:cpu:/d\n0::/\n", u64::MAX),
            ("nonsense\n", u64::MAX),
        ] {
            assert_eq!(least_limit(root, groups), least, "{groups:?}");
        }
    }
}
