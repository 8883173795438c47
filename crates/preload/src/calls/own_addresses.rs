//! The addresses of this host, as programs ask for them (getifaddrs(3), and ioctl(2) as in netdevice(7)): those of the stack are among them,
//! at the interface by which its packets come. A name server listens at each of them, and at no other.

use std::mem::MaybeUninit;
use std::ptr::null_mut;

use super::*;
use crate::ask::ask;
use crate::memory::{ADDRESSES_MAX, Ask};

/// The stack's: what stands in the place of what the kernel counts of an interface.
static OURS: u8 = 0;

/// UP, BROADCAST, RUNNING and MULTICAST (netdevice(7)).
const FLAGS: u32 = 0x1043;

/// One of ours, with all that it refers to.
#[repr(C)]
struct Entry {
    entry: InterfaceAddress,
    name: [c_char; 16],
    address: [u8; 28],
    mask: [u8; 28],
    broadcast: [u8; 28],
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getifaddrs(list: *mut *mut InterfaceAddress) -> i32 {
    // SAFETY: the program's promise.
    let result = unsafe { system::getifaddrs(list) };
    if result == 0
        && let Some(here) = begun()
    {
        // SAFETY: the C library has made the list.
        unsafe { add(here, &mut *list) };
    }
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn freeifaddrs(list: *mut InterfaceAddress) {
    let mut list = list;
    let mut at = &raw mut list;
    // SAFETY: what `getifaddrs` has given: ours stand behind the C library's.
    unsafe {
        while let Some(entry) = at.read().as_mut() {
            if std::ptr::eq(entry.data.cast(), &OURS) {
                at.write(entry.next);
                drop(Box::from_raw(std::ptr::from_mut(entry).cast::<Entry>()));
            } else {
                at = &raw mut entry.next;
            }
        }
        system::freeifaddrs(list);
    }
}

/// The stack's addresses, each in the kernel's form with the bits of it that are its network's, and the name of their interface.
struct Ours {
    records: [[u8; 32]; ADDRESSES_MAX],
    count: usize,
    name: [c_char; 16],
}

impl Ours {
    fn of(here: &Here) -> Self {
        let mut records = [[0_u8; 32]; ADDRESSES_MAX];
        let count = ask(-1, Ask::Addresses, records.as_mut_ptr().expose_provenance());
        let mut name = [0; 16];
        let index = here.shared.interface().load(Ordering::Relaxed);
        // SAFETY: room for a name. One of an interface that has gone is empty.
        unsafe { system::if_indextoname(index, name.as_mut_ptr()) };
        Self {
            records,
            count: usize::try_from(count).unwrap_or(0),
            name,
        }
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], usize)> {
        let records = self.records.iter().take(self.count);
        records.map(|record| (&record[..28], record[28].into()))
    }

    /// Those of IPv4, of which alone ioctl(2) tells.
    fn ipv4(&self) -> impl Iterator<Item = (&[u8], usize)> {
        self.iter()
            .filter(|(address, _)| place_of(address).len() == 4)
    }

    fn name(&self) -> [u8; 16] {
        self.name.map(|letter| letter.to_ne_bytes()[0])
    }

    /// One of them, as ioctl(2) tells it.
    fn request(&self, address: &[u8]) -> Request {
        let mut request = Request {
            name: self.name(),
            address: [0; 24],
        };
        request.address[..16].copy_from_slice(&address[..16]);
        request
    }
}

/// Adds those of the stack's addresses that this host does not have.
unsafe fn add(here: &Here, list: &mut *mut InterfaceAddress) {
    let ours = Ours::of(here);
    for (address, prefix) in ours.iter() {
        let mut at = std::ptr::from_mut(list);
        let mut is_there = false;
        // SAFETY: the list's entries are whole.
        unsafe {
            while let Some(entry) = at.read().as_mut() {
                is_there |= is_at(entry.address, address);
                at = &raw mut entry.next;
            }
            if !is_there {
                at.write(entry_of(ours.name, address, prefix));
            }
        }
    }
}

/// Where the address stands in the kernel's form of its family, and how long it is.
fn place_of(address: &[u8]) -> std::ops::Range<usize> {
    match i32::from(u16::from_ne_bytes([address[0], address[1]])) {
        AF_INET => 4..8,
        _ => 8..24,
    }
}

/// Whether an address in a list is this one.
unsafe fn is_at(listed: *const u8, address: &[u8]) -> bool {
    let place = place_of(address);
    // SAFETY: one of this family is as long as that.
    !listed.is_null()
        && unsafe {
            std::slice::from_raw_parts(listed, 2) == &address[..2]
                && std::slice::from_raw_parts(listed.add(place.start), place.len())
                    == &address[place]
        }
}

fn entry_of(name: [c_char; 16], address: &[u8], prefix: usize) -> *mut InterfaceAddress {
    let mut made = Box::new(Entry {
        entry: InterfaceAddress {
            next: null_mut(),
            name: null_mut(),
            flags: FLAGS,
            address: null_mut(),
            mask: null_mut(),
            broadcast: null_mut(),
            data: (&raw const OURS).cast_mut().cast(),
        },
        name,
        address: [0; 28],
        mask: [0; 28],
        broadcast: [0; 28],
    });
    made.address.copy_from_slice(address);
    [made.mask, made.broadcast] = network_of(address, prefix);
    let made = Box::leak(made);
    made.entry.name = made.name.as_mut_ptr();
    made.entry.address = made.address.as_mut_ptr();
    made.entry.mask = made.mask.as_mut_ptr();
    // IPv6 has no broadcast.
    if place_of(address).len() == 4 {
        made.entry.broadcast = made.broadcast.as_mut_ptr();
    }
    &raw mut made.entry
}

/// The mask of an address's network, and that network's broadcast address.
fn network_of(address: &[u8], prefix: usize) -> [[u8; 28]; 2] {
    let [mut mask, mut broadcast] = [[0; 28]; 2];
    for bytes in [&mut mask, &mut broadcast] {
        bytes[..2].copy_from_slice(&address[..2]);
    }
    for (at, bit) in place_of(address).zip((0..).step_by(8)) {
        let ones = prefix.saturating_sub(bit).min(8);
        mask[at] = !u8::MAX.checked_shr(ones as u32).unwrap_or(0);
        broadcast[at] = address[at] | !mask[at];
    }
    // RFC 3021 §2.1: so short a network has none.
    if place_of(address).len() == 4 && prefix >= 31 {
        broadcast[place_of(address)].fill(0);
    }
    [mask, broadcast]
}

/// What ioctl(2) is asked for: all addresses, or of one interface its address, that of its other end, its network's broadcast address, or
/// mask.
const SIOCGIFCONF: u64 = 0x8912;
const SIOCGIFADDR: u64 = 0x8915;
const SIOCGIFDSTADDR: u64 = 0x8917;
const SIOCGIFBRDADDR: u64 = 0x8919;
const SIOCGIFNETMASK: u64 = 0x891b;

/// `struct ifreq`: an interface, and an address of it.
#[repr(C)]
#[derive(Copy, Clone)]
struct Request {
    name: [u8; 16],
    address: [u8; 24],
}

/// `struct ifconf`: how many bytes there are, and where.
#[repr(C)]
#[derive(Copy, Clone)]
struct Requests {
    len: i32,
    at: *mut Request,
}

/// Asks the kernel by ioctl(2), and adds the stack's addresses where it is asked for addresses. What the program cannot read or write at the
/// argument is the kernel's to refuse.
pub(super) fn ask_for(what: u64, argument: usize, kernel: impl FnOnce() -> i32) -> i32 {
    match what & u64::from(u32::MAX) {
        SIOCGIFCONF => match read_at::<Requests>(argument) {
            Some(asked) => list_all(asked.len, argument, kernel),
            None => kernel(),
        },
        which @ (SIOCGIFADDR | SIOCGIFDSTADDR | SIOCGIFBRDADDR | SIOCGIFNETMASK) => {
            let result = kernel();
            // An address of the kernel's own goes first.
            if result == 0 || system::errno() != EADDRNOTAVAIL {
                return result;
            }
            let told = read_at(argument).and_then(|asked| told_of(asked, which));
            if told.is_some_and(|told| write_at(argument, &told)) {
                return 0;
            }
            system::set_errno(EADDRNOTAVAIL);
            result
        }
        _ => kernel(),
    }
}

/// Adds to the list at this place, for which there is so much room, what the kernel does not have.
fn list_all(room: i32, argument: usize, kernel: impl FnOnce() -> i32) -> i32 {
    const SIZE: i32 = size_of::<Request>() as i32;
    let result = kernel();
    let Some(here) = (result == 0).then(begun).flatten() else {
        return result;
    };
    let Some(mut list) = read_at::<Requests>(argument) else {
        return result;
    };
    let ours = Ours::of(here);
    for (address, _) in ours.ipv4() {
        // How much room all of them want.
        if list.at.is_null() {
            list.len += SIZE;
            continue;
        }
        let count = (list.len / SIZE) as usize;
        // SAFETY: the kernel has written as many.
        let listed = (0..count).map(|at| unsafe { list.at.add(at).read_unaligned() });
        let mut has_room = list.len.checked_add(SIZE).is_some_and(|len| len <= room);
        has_room &= !listed
            .map(|one| one.address)
            .any(|one| one[4..8] == address[4..8]);
        if has_room
            && write_at(
                list.at.addr() + count * SIZE as usize,
                &ours.request(address),
            )
        {
            list.len += SIZE;
        }
    }
    write_at(argument, &list);
    result
}

/// Of an interface without addresses of the kernel's: what is asked for of the stack's first, where its packets come by that.
fn told_of(mut request: Request, which: u64) -> Option<Request> {
    let ours = Ours::of(begun()?);
    let until_zero = |name: &[u8; 16]| name.iter().position(|letter| *letter == 0).unwrap_or(16);
    let (asked, name) = (request.name, ours.name());
    let (address, prefix) = ours.ipv4().next()?;
    if asked[..until_zero(&asked)] != name[..until_zero(&name)] {
        return None;
    }
    let [mask, broadcast] = network_of(address, prefix);
    let told = match which {
        SIOCGIFADDR | SIOCGIFDSTADDR => address,
        SIOCGIFNETMASK => &mask,
        _ => &broadcast,
    };
    request.address[..16].copy_from_slice(&told[..16]);
    Some(request)
}

/// What is at a place in this process, if the program can read it.
fn read_at<T: Copy>(place: usize) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    let here = stretch::<T>(value.as_mut_ptr().expose_provenance());
    let there = stretch::<T>(place);
    // SAFETY: `here` is the value's room; what is there is read by the kernel, or not at all.
    let read = unsafe { system::process_vm_readv(system::getpid(), &here, 1, &there, 1, 0) };
    // SAFETY: all of it was read, and any bytes are such a value.
    (read == here.len as isize).then(|| unsafe { value.assume_init() })
}

/// Writes to a place in this process. False where the program cannot write there.
fn write_at<T: Copy>(place: usize, value: &T) -> bool {
    let here = stretch::<T>(std::ptr::from_ref(value).expose_provenance());
    let there = stretch::<T>(place);
    // SAFETY: `here` is a value; the program asked for it to be written there.
    let written = unsafe { system::process_vm_writev(system::getpid(), &here, 1, &there, 1, 0) };
    written == here.len as isize
}

fn stretch<T>(place: usize) -> Iovec {
    Iovec {
        base: std::ptr::with_exposed_provenance_mut(place),
        len: size_of::<T>(),
    }
}
