//! The addresses of this host, as programs ask for them (getifaddrs(3)): those of the stack are among them, at the interface by which its
//! packets come. A name server listens at each of them, and at no other.

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

/// Adds those of the stack's addresses that this host does not have.
unsafe fn add(here: &Here, list: &mut *mut InterfaceAddress) {
    let mut records = [[0_u8; 32]; ADDRESSES_MAX];
    let count = ask(-1, Ask::Addresses, records.as_mut_ptr().expose_provenance());
    let mut name = [0; 16];
    let index = here.shared.interface().load(Ordering::Relaxed);
    // SAFETY: room for a name. One of an interface that has gone is empty.
    unsafe { system::if_indextoname(index, name.as_mut_ptr()) };
    for record in records.iter().take(usize::try_from(count).unwrap_or(0)) {
        let (address, prefix) = record.split_at(28);
        let mut at = std::ptr::from_mut(list);
        let mut is_there = false;
        // SAFETY: the list's entries are whole.
        unsafe {
            while let Some(entry) = at.read().as_mut() {
                is_there |= is_at(entry.address, address);
                at = &raw mut entry.next;
            }
            if !is_there {
                at.write(entry_of(name, address, prefix[0].into()));
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
    for bytes in [&mut made.mask, &mut made.broadcast] {
        bytes[..2].copy_from_slice(&address[..2]);
    }
    let place = place_of(address);
    for (at, bit) in place.clone().zip((0..).step_by(8)) {
        let ones = prefix.saturating_sub(bit).min(8);
        let mask = !u8::MAX.checked_shr(ones as u32).unwrap_or(0);
        made.mask[at] = mask;
        made.broadcast[at] = address[at] | !mask;
    }
    let made = Box::leak(made);
    made.entry.name = made.name.as_mut_ptr();
    made.entry.address = made.address.as_mut_ptr();
    made.entry.mask = made.mask.as_mut_ptr();
    // IPv6 has no broadcast.
    if place.len() == 4 {
        made.entry.broadcast = made.broadcast.as_mut_ptr();
    }
    &raw mut made.entry
}
