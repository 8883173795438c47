//! What the kernel's TCP says of one of its connections: `TCP_INFO` of tcp(7), for measurements that have the
//! kernel's stack beside ours.
//!
//! The structure has grown at its end from release to release (`struct tcp_info` of linux/tcp.h); fields are read
//! at their places. One that this kernel does not have is an error, unless it is optional here.

use crate::error::{Error, Result};
use std::os::fd::{AsFd, AsRawFd as _};

/// Part of what there is, in the kernel's terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time, in microseconds.
    pub rtt_us: u32,
    /// Segments sent again.
    pub retransmitted_segments: u32,
    /// Data bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Timeouts of the retransmission timer. Since Linux 6.7.
    pub timeouts: Option<u16>,
}

/// Room for the structure: 248 bytes in Linux 6.18, and some for later ones.
const LEN: usize = 512;

/// Reads the state of a connection of the kernel's.
pub fn of(socket: impl AsFd) -> Result<TcpInfo> {
    let mut bytes = [0_u8; LEN];
    let mut len = LEN as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to the buffer, which has that many, and sets `len` to how
    // many it wrote.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &mut len,
        )
    };
    if result != 0 {
        let error = std::io::Error::last_os_error();
        return Err(Error::io(
            "cannot read the state of a TCP connection",
            error,
        ));
    }
    read(&bytes[..(len as usize).min(LEN)]).ok_or_else(|| {
        Error::new("this kernel says too little about its TCP connections")
            .mend("use Linux 4.1 or later")
    })
}

fn read(bytes: &[u8]) -> Option<TcpInfo> {
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let long = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    Some(TcpInfo {
        rtt_us: word(68)?,
        retransmitted_segments: word(100)?,
        bytes_acked: long(120)?,
        timeouts: bytes
            .get(240..)
            .and_then(|rest| rest.first_chunk())
            .map(|field| u16::from_ne_bytes(*field)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn acknowledged_bytes_of_a_connection_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("bound");
        let mut client = TcpStream::connect(address).expect("it listens");
        let (mut server, _) = listener.accept().expect("it connected");
        client.write_all(&[7; 10_000]).expect("connected");
        let mut got = vec![0; 10_000];
        server.read_exact(&mut got).expect("connected");
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        // Loopback acknowledges within moments. Linux counts the SYN among the bytes.
        while of(&client).expect("readable").bytes_acked < 10_000 {
            assert!(std::time::Instant::now() < end, "{:?}", of(&client));
            std::thread::yield_now();
        }
        let info = of(&client).expect("readable");
        assert!((10_000..=10_001).contains(&info.bytes_acked), "{info:?}");
        assert!(info.rtt_us > 0, "{info:?}");
    }

    #[test]
    fn an_old_kernel_is_noticed() {
        assert_eq!(read(&[0; 127]), None);
        assert_eq!(read(&[0; 128]).expect("enough").timeouts, None);
        assert_eq!(read(&[1; 248]).expect("enough").timeouts, Some(0x0101));
    }
}
