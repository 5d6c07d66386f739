//! The envelope of Modbus TCP (Messaging on TCP/IP V1.0b, 3.1.3).
//!
//! ```text
//!  0      2      4      6    7          8
//! ┌──────┬──────┬──────┬────┬──────────┬──────────────┐
//! │ tid  │ 0  0 │ len  │unit│ function │ data         │   len counts unit, function and data: 2 to 254
//! └──────┴──────┴──────┴────┴──────────┴──────────────┘
//!         protocol             ── PDU, 1 to 253 bytes ──
//! ```
//!
//! [`Deframer`] cuts a stream into ADUs, however it was cut into segments. It holds at most one unfinished ADU: 260
//! bytes. An exception is complete after its code, whatever `len` says: devices exist that count one byte too many and
//! do not send it. The next ADU is then looked for at both places.

use super::{MAX_PDU_LEN, RequestError, UnitId, encode_request};
use tokio_modbus::Request;

/// Bytes before the PDU.
pub const MBAP_LEN: usize = 7;
/// Longest ADU.
pub const MAX_ADU_LEN: usize = MBAP_LEN + MAX_PDU_LEN;

/// Which request a reply belongs to; chosen by the client, echoed by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransactionId(pub u16);

/// One ADU, as a view over received bytes. Nothing of it has been believed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adu<'a> {
    /// Which request it says to belong to.
    pub transaction: TransactionId,
    /// Who says it.
    pub unit: UnitId,
    /// Function code and data; never empty.
    pub pdu: &'a [u8],
}

/// The stream is no Modbus TCP, or not from here on. No later byte can be trusted: the connection must be reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LostSync {
    /// The protocol id was this, not 0.
    #[error("the protocol id is 0x{0:04X}, not 0")]
    Protocol(u16),
    /// The length was this, not 2 to 254.
    #[error("a length of {0} is impossible")]
    Length(u16),
}

/// Appends one request as an ADU; appends nothing where it is refused.
pub fn encode_request_adu(
    transaction: TransactionId,
    unit: UnitId,
    request: &Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), RequestError> {
    let start = begin_adu(transaction, unit, out);
    match encode_request(request, out) {
        Ok(()) => {
            end_adu(start, out);
            Ok(())
        }
        Err(e) => {
            out.truncate(start);
            Err(e)
        }
    }
}

/// Appends the header of an ADU whose PDU the caller appends next; gives the place for [`end_adu`].
pub fn begin_adu(transaction: TransactionId, unit: UnitId, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    let [high, low] = transaction.0.to_be_bytes();
    out.extend_from_slice(&[high, low, 0, 0, 0, 0, unit.0]);
    start
}

/// Writes the length of the ADU that began at `start` and ends with `out`. Its PDU has at most 253 bytes.
pub fn end_adu(start: usize, out: &mut [u8]) {
    let len = out.len() - start - (MBAP_LEN - 1);
    debug_assert!(len <= MAX_PDU_LEN + 1);
    out[start + 4..start + 6].copy_from_slice(&(len as u16).to_be_bytes());
}

/// Cuts a stream into ADUs. After [`LostSync`] it is to be thrown away with its connection.
#[derive(Debug)]
pub struct Deframer {
    /// The beginning of an ADU that has not come whole: `held[..len]`.
    held: [u8; MAX_ADU_LEN],
    len: usize,
    /// What `held` has is an ADU that was given out: it goes before anything else is done.
    spent: bool,
    /// How many bytes the last exception announced beyond its code: they may follow or not.
    surplus: usize,
    /// So many of them did follow, and are still to be passed over.
    skip: usize,
}

impl Default for Deframer {
    fn default() -> Self {
        Self { held: [0; MAX_ADU_LEN], len: 0, spent: false, surplus: 0, skip: 0 }
    }
}

impl Deframer {
    /// The next ADU of the stream, and how many bytes of `input` (what was received and not yet looked at) are done
    /// with. Call with the rest until it gives no ADU: then all of it is, and the beginning of the next one is kept.
    ///
    /// An ADU that lies whole in `input` is given as a view over it; only one that came in pieces is copied.
    pub fn next<'a>(&'a mut self, input: &'a [u8]) -> Result<(Option<Adu<'a>>, usize), LostSync> {
        let mut rest = input;
        if std::mem::take(&mut self.spent) {
            self.len = 0;
        }
        if self.surplus > 0 && !self.skip_surplus(&mut rest) {
            return Ok((None, input.len() - rest.len()));
        }
        if self.skip > 0 {
            // Decided once, whatever these bytes look like further on.
            let from_held = self.skip.min(self.len);
            self.held.copy_within(from_held..self.len, 0);
            self.len -= from_held;
            let from_input = (self.skip - from_held).min(rest.len());
            rest = &rest[from_input..];
            self.skip -= from_held + from_input;
        }
        if self.len == 0
            && let Some((need, surplus)) = adu_len(rest)?
            && need <= rest.len()
        {
            let (whole, rest) = rest.split_at(need);
            self.surplus = surplus;
            return Ok((Some(view(whole)), input.len() - rest.len()));
        }
        // In pieces: first the header and the function code, which say how much more to take.
        self.hold(&mut rest, MBAP_LEN + 1);
        let Some((need, surplus)) = adu_len(&self.held[..self.len])? else {
            return Ok((None, input.len() - rest.len()));
        };
        self.hold(&mut rest, need);
        let done = input.len() - rest.len();
        if self.len < need {
            return Ok((None, done));
        }
        self.surplus = surplus;
        self.spent = true;
        Ok((Some(view(&self.held[..need])), done))
    }

    /// Moves bytes from `input` until `until` are held.
    fn hold(&mut self, input: &mut &[u8], until: usize) {
        let n = input.len().min(until.min(MAX_ADU_LEN).saturating_sub(self.len));
        let (taken, rest) = input.split_at(n);
        self.held[self.len..self.len + n].copy_from_slice(taken);
        self.len += n;
        *input = rest;
    }

    /// Decides whether the bytes that an exception announced too many have really come. False: not known yet.
    fn skip_surplus(&mut self, input: &mut &[u8]) -> bool {
        // Six bytes show whether a header begins here; nothing can be complete with fewer.
        let mut begin = [0; 6];
        let held = self.len.min(6);
        let fresh = input.len().min(6 - held);
        begin[..held].copy_from_slice(&self.held[..held]);
        begin[held..held + fresh].copy_from_slice(&input[..fresh]);
        if held + fresh < 6 {
            self.hold(input, 6);
            return false;
        }
        let surplus = std::mem::take(&mut self.surplus);
        if adu_len(&begin).is_err() {
            // No header here: the announced bytes came, and it begins after them.
            self.skip = surplus;
        }
        true
    }
}

/// Length of the ADU that begins here, and how much more it announces than belongs to it; nothing where too little
/// has come to say.
fn adu_len(bytes: &[u8]) -> Result<Option<(usize, usize)>, LostSync> {
    if let [_, _, a, b, ..] = *bytes
        && (a, b) != (0, 0)
    {
        return Err(LostSync::Protocol(u16::from_be_bytes([a, b])));
    }
    let [_, _, _, _, a, b, ref rest @ ..] = *bytes else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes([a, b]));
    if !(2..=MAX_PDU_LEN + 1).contains(&len) {
        return Err(LostSync::Length(len as u16));
    }
    let [_, function, ..] = *rest else { return Ok(None) };
    Ok(Some(if function & 0x80 == 0 { (MBAP_LEN - 1 + len, 0) } else { (MBAP_LEN + 2, len.saturating_sub(3)) }))
}

/// `whole` is as long as [`adu_len`] says: at least 8 bytes.
fn view(whole: &[u8]) -> Adu<'_> {
    Adu {
        transaction: TransactionId(u16::from_be_bytes([whole[0], whole[1]])),
        unit: UnitId(whole[6]),
        pdu: &whole[MBAP_LEN..],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Owned = (u16, u8, Vec<u8>);

    /// All ADUs of a stream that comes in these segments.
    fn deframed<'a>(segments: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Owned>, Option<LostSync>) {
        let mut deframer = Deframer::default();
        let mut all = Vec::new();
        for mut segment in segments {
            loop {
                match deframer.next(segment) {
                    Ok((adu, done)) => {
                        segment = &segment[done..];
                        let Some(adu) = adu else { break };
                        all.push((adu.transaction.0, adu.unit.0, adu.pdu.to_vec()));
                    }
                    Err(lost) => return (all, Some(lost)),
                }
            }
            assert!(segment.is_empty());
        }
        (all, None)
    }

    #[test]
    fn f04_a_reply_in_any_segments_is_the_same() {
        let bytes = [0, 1, 0, 0, 0, 7, 1, 3, 4, 0, 0, 0, 1];
        let expected = (vec![(1, 1, vec![3, 4, 0, 0, 0, 1])], None);
        assert_eq!(deframed([&bytes[..]]), expected);
        assert_eq!(deframed([&bytes[..12], &bytes[12..]]), expected);
        assert_eq!(deframed(bytes.chunks(1)), expected);
    }

    #[test]
    fn f06_an_exception_is_complete_after_its_code() {
        let exception = [0x18, 0x58, 0, 0, 0, 4, 1, 0x83, 3];
        let good = [0x18, 0x59, 0, 0, 0, 5, 1, 3, 2, 0, 42];
        let expected = (vec![(0x1858, 1, vec![0x83, 3]), (0x1859, 1, vec![3, 2, 0, 42])], None);
        // At once, before any other byte has come.
        assert_eq!(deframed([&exception[..]]).0, expected.0[..1]);
        for chunk in 1..=20 {
            // The announced byte never comes ...
            let stream = [&exception[..], &good[..]].concat();
            assert_eq!(deframed(stream.chunks(chunk)), expected, "chunks of {chunk}");
            // ... or it does.
            for extra in [0, 0x18, 0xFF] {
                let stream = [&exception[..], &[extra], &good[..]].concat();
                assert_eq!(deframed(stream.chunks(chunk)), expected, "chunks of {chunk}, {extra} between");
            }
        }
    }

    #[test]
    fn f49_codes_beyond_the_standard_are_frames_like_others() {
        let stream = [0, 5, 0, 0, 0, 3, 1, 0x86, 0x80, 0, 6, 0, 0, 0, 3, 1, 0x90, 0];
        assert_eq!(deframed([&stream[..]]), (vec![(5, 1, vec![0x86, 0x80]), (6, 1, vec![0x90, 0])], None));
    }

    #[test]
    fn what_is_no_modbus_is_said_to_be_lost() {
        assert_eq!(deframed([&[0, 1, 0, 1][..]]).1, Some(LostSync::Protocol(1)));
        assert_eq!(deframed([&b"HTTP/1.1 400"[..]]).1, Some(LostSync::Protocol(0x5450)));
        assert_eq!(deframed([&[0, 1, 0, 0, 0, 1, 7][..]]).1, Some(LostSync::Length(1)));
        assert_eq!(deframed([&[0, 1, 0, 0, 0, 255][..]]).1, Some(LostSync::Length(255)));
        assert_eq!(deframed([&[0, 1, 0, 0, 1, 0][..]]).1, Some(LostSync::Length(256)));
        assert_eq!(deframed([&[0, 1, 0, 0, 0, 254][..]]).1, None);
    }

    #[test]
    fn f106_every_unit_id_is_ordinary() {
        for unit in [0, 1, 247, 248, 255] {
            let mut out = Vec::new();
            encode_request_adu(TransactionId(7), UnitId(unit), &Request::ReadHoldingRegisters(0, 1), &mut out).unwrap();
            assert_eq!(out, [0, 7, 0, 0, 0, 6, unit, 3, 0, 0, 0, 1]);
        }
    }

    #[test]
    fn a_refused_request_leaves_no_bytes() {
        let mut out = vec![9];
        assert!(encode_request_adu(TransactionId(1), UnitId(1), &Request::ReadCoils(0, 0), &mut out).is_err());
        assert_eq!(out, [9]);
    }

    proptest! {
        #[test]
        fn any_segmentation_gives_the_same_frames(
            frames in proptest::collection::vec((any::<u16>(), any::<u8>(), proptest::collection::vec(any::<u8>(), 1..=253)), 0..8),
            cuts in proptest::collection::vec(1..300usize, 1..40),
        ) {
            let mut stream = Vec::new();
            let mut expected = Vec::new();
            for (tid, unit, mut pdu) in frames {
                if pdu[0] >= 0x80 {
                    pdu.resize(2, 4);
                }
                let start = begin_adu(TransactionId(tid), UnitId(unit), &mut stream);
                stream.extend_from_slice(&pdu);
                end_adu(start, &mut stream);
                expected.push((tid, unit, pdu));
            }
            let mut rest = &stream[..];
            let mut segments = Vec::new();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (head, tail) = rest.split_at((*cut).min(rest.len()));
                segments.push(head);
                rest = tail;
            }
            prop_assert_eq!(deframed(segments), (expected, None));
        }

        #[test]
        fn no_bytes_panic_and_segments_never_matter(
            bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(3), Just(0x83), any::<u8>()], 0..600),
            chunk in 1..40usize,
        ) {
            prop_assert_eq!(deframed([&bytes[..]]), deframed(bytes.chunks(chunk)));
        }
    }
}
