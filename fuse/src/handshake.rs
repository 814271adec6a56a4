//! INIT: the first exchange on a connection.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::abi::{InitIn, InitOut, MAJOR, MINOR, MINOR_MIN, init, opcode};
use crate::capability::{Capability, CapabilitySet};
use crate::reply::Reply;
use crate::request::Incoming;
use crate::server::RequestBuffer;

/// Pages of 4096 bytes in one request: 1 MiB.
const MAX_PAGES: u16 = 256;
/// Nothing is ever written, so the least that the kernel accepts.
const MAX_WRITE: u32 = 4096;
/// Read-ahead requests in flight, and how many of them mean congestion.
const MAX_BACKGROUND: u16 = 64;
const CONGESTION: u16 = 48;

/// Answers INIT, which the kernel sends once something uses the mount or, at
/// the latest, when it is made. Asks for everything that is offered, not
/// masked and of use; ACL support is of use only when `acls` occur, because
/// the kernel then asks for them on every first look at a file. Says what was
/// agreed on.
///
/// # Errors
/// `ENODEV` when the mount is gone already; `EPROTO` for a kernel older than
/// Linux 3.15 or anything else that is not this protocol.
pub(crate) fn shake_hands(
    device: &impl AsFd,
    masked: CapabilitySet,
    acls: bool,
) -> io::Result<CapabilitySet> {
    let mut buffer = RequestBuffer::default();
    loop {
        let bytes = buffer.receive(device.as_fd())?;
        let request = Incoming::parse(bytes).ok_or(Errno::PROTO)?;
        let reply = Reply::new(device.as_fd(), request.header.unique);
        if request.header.opcode != opcode::INIT {
            reply.error(Errno::IO);
            continue;
        }
        let offer: InitIn = request.arguments().ok_or(Errno::PROTO)?;
        if offer.major > MAJOR {
            // It asks again with the version that is named here.
            reply.record(&answer(0, 0));
            continue;
        }
        if offer.major < MAJOR || offer.minor < MINOR_MIN {
            reply.error(Errno::PROTO);
            return Err(Errno::PROTO.into());
        }
        let offered = offered(&request, &offer);
        let agreed = agree(offered, masked, acls);
        let flags = agreed.flags() | (offered & (init::ASYNC_READ | init::MAX_PAGES));
        let extended = if offered & init::INIT_EXT != 0 { init::INIT_EXT } else { 0 };
        reply.record(&answer(flags | extended, offer.max_readahead));
        return Ok(agreed);
    }
}

/// The flags that the kernel offers; those from bit 32 on since version 7.36.
fn offered(request: &Incoming<'_>, offer: &InitIn) -> u64 {
    let low = u64::from(offer.flags);
    match request.arguments::<[u32; 5]>() {
        Some([.., high]) if low & init::INIT_EXT != 0 => low | (u64::from(high) << 32),
        _ => low,
    }
}

fn agree(offered: u64, masked: CapabilitySet, acls: bool) -> CapabilitySet {
    let is_good = |capability: &Capability| {
        let useful = *capability != Capability::PosixAcl || acls;
        useful && !masked.contains(*capability) && offered & capability.flag() != 0
    };
    Capability::ALL.into_iter().filter(is_good).collect()
}

fn answer(flags: u64, max_readahead: u32) -> InitOut {
    let [a, b, c, d, e, f, g, h] = flags.to_le_bytes();
    InitOut {
        major: MAJOR,
        minor: MINOR,
        max_readahead,
        flags: u32::from_le_bytes([a, b, c, d]),
        max_background: MAX_BACKGROUND,
        congestion_threshold: CONGESTION,
        max_write: MAX_WRITE,
        time_gran: 1,
        max_pages: MAX_PAGES,
        map_alignment: 0,
        flags2: u32::from_le_bytes([e, f, g, h]),
        max_stack_depth: 0,
        request_timeout: 0,
        unused: [0; 11],
    }
}

#[cfg(test)]
mod tests;
