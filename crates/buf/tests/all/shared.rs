//! Bytes that buffers of several threads are made of.

use exos_buf::shared::USES_MAX;
use exos_buf::{Buffer, SharedBytes};

#[test]
fn threads_have_the_same_bytes_and_sums_in_buffers_of_their_own() {
    let bytes: Vec<u8> = (0..10_000_u32).map(|i| (i * 7) as u8).collect();
    let alone = Buffer::from(bytes.clone());
    let shared = SharedBytes::from(bytes);
    let sums = |buffer: &Buffer| [0..10_000, 1..9999, 1448..2896].map(|r| buffer.sum(r));
    let expected = sums(&alone);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let shared = shared.clone();
            scope.spawn(move || {
                let buffer = shared.buffer();
                let clones = [buffer.clone(), buffer.clone()];
                assert_eq!(buffer.as_slice().as_ptr(), shared.as_slice().as_ptr());
                assert_eq!(sums(&clones[1]), expected);
                assert_eq!(buffer.reference_count(), 3);
            });
        }
    });
    assert_eq!(shared.holders(), 1, "all threads have ended");
}

#[test]
fn uses_are_counted_until_somebody_looks() {
    let shared = SharedBytes::from(b"used".to_vec());
    let buffers = [shared.buffer(), shared.buffer()];
    for uses in 0..=5 {
        (0..uses).for_each(|n| buffers[n % 2].note_use());
        assert_eq!(shared.take_uses(), uses.min(USES_MAX.into()) as u8);
        assert_eq!(shared.take_uses(), 0);
    }
    Buffer::from_static(b"nobody looks").note_use();
}

#[test]
fn a_buffer_keeps_the_bytes() {
    let shared = SharedBytes::from(b"kept".to_vec());
    let slice = shared.buffer().slice(1..3);
    assert_eq!(shared.holders(), 2);
    drop(shared);
    assert_eq!(slice.as_bytes(), b"ep");
}
