//! The envelope of ASCII lines (MODBUS over Serial Line V1.02, 2.5.2).
//!
//! ```text
//!  :  unit  function  data …  LRC  CR LF      each byte between `:` and CR as two hexadecimal digits
//! ```
//!
//! Frames begin and end by themselves; whose reply one is shows no better than on RTU lines, so the same rules hold:
//! the awaited reply is known by unit, function and length, an echo by its content. Digits are sent in upper case and
//! taken in both.

use super::expected::{Expected, Fit};
use super::rtu::{Frame, Tally};
use super::{MAX_PDU_LEN, RequestError, UnitId, encode_request};
use tokio_modbus::Request;

/// Longest frame, in characters.
pub const MAX_FRAME_LEN: usize = 1 + 2 * (1 + MAX_PDU_LEN + 1) + 2;

/// The checksum: the sum of all bytes, with this one, is 0.
pub fn lrc(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg()
}

/// Appends one request as a frame; appends nothing where it is refused.
pub fn encode_request_frame(unit: UnitId, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), RequestError> {
    let start = out.len();
    out.push(unit.0);
    if let Err(e) = encode_request(request, out) {
        out.truncate(start);
        return Err(e);
    }
    spell(start, out);
    Ok(())
}

/// Appends a PDU (a reply, by a pretend device) as a frame.
pub fn encode_frame(unit: UnitId, pdu: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.push(unit.0);
    out.extend_from_slice(pdu);
    spell(start, out);
}

/// Turns the bytes from `start` on into a frame, in their place.
fn spell(start: usize, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let sum = lrc(&out[start..]);
    out.push(sum);
    let count = out.len() - start;
    out.resize(start + 1 + 2 * count, b':');
    // From the last byte on, so that none is overwritten before it is spelt.
    for index in (0..count).rev() {
        let byte = out[start + index];
        out[start + 1 + 2 * index] = DIGITS[usize::from(byte >> 4)];
        out[start + 2 + 2 * index] = DIGITS[usize::from(byte & 15)];
    }
    out[start] = b':';
    out.extend_from_slice(b"\r\n");
}

/// Cuts text into frames, sound or not. Bound: one frame.
#[derive(Debug, Default)]
struct Reader {
    /// From `:` on, as it came; nothing outside a frame.
    text: Vec<u8>,
    /// The bytes of the last frame, without its checksum.
    bytes: Vec<u8>,
    noise: u64,
}

/// What a frame is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    Sound,
    /// Its checksum is wrong.
    Damaged,
}

impl Reader {
    /// Takes characters up to the end of the next frame; gives how many, and the frame's worth.
    fn read(&mut self, input: &[u8]) -> (Option<Read>, usize) {
        for (index, character) in input.iter().enumerate() {
            match character {
                b':' => {
                    self.noise += self.text.len() as u64;
                    self.text.clear();
                    self.text.push(b':');
                }
                _ if self.text.is_empty() => self.noise += 1,
                b'\n' if self.text.ends_with(b"\r") => {
                    self.text.push(b'\n');
                    if let Some(read) = self.decode() {
                        return (Some(read), index + 1);
                    }
                    self.noise += self.text.len() as u64;
                    self.text.clear();
                }
                b'\r' | b'0'..=b'9' | b'A'..=b'F' | b'a'..=b'f'
                    if self.text.len() < MAX_FRAME_LEN - 1 && !self.text.ends_with(b"\r") =>
                {
                    self.text.push(*character);
                }
                _ => {
                    self.noise += self.text.len() as u64 + 1;
                    self.text.clear();
                }
            }
        }
        (None, input.len())
    }

    fn decode(&mut self) -> Option<Read> {
        let digits = &self.text[1..self.text.len() - 2];
        let (pairs, rest) = digits.as_chunks::<2>();
        if !rest.is_empty() || pairs.len() < 3 {
            return None;
        }
        let value = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
        self.bytes.clear();
        self.bytes.extend(pairs.iter().map(|[high, low]| value(*high) << 4 | value(*low)));
        let is_sound = lrc(&self.bytes) == 0;
        self.bytes.pop();
        Some(if is_sound { Read::Sound } else { Read::Damaged })
    }

    fn frame(&self) -> Frame<'_> {
        Frame { unit: UnitId(self.bytes[0]), pdu: &self.bytes[1..] }
    }

    /// Forgets the text; gives how long it was.
    fn drop_text(&mut self) -> u64 {
        let len = self.text.len() as u64;
        self.text.clear();
        len
    }
}

/// A client's ear on an ASCII line; used as [`super::rtu::ReplyDeframer`] is.
#[derive(Debug, Default)]
pub struct ReplyDeframer {
    echo: bool,
    expected: Option<Expected>,
    request: Vec<u8>,
    echoed: bool,
    /// Something came since the request.
    heard: bool,
    reader: Reader,
    tally: Tally,
}

impl ReplyDeframer {
    /// An ear that awaits nothing. `echo`: the line gives back all that is sent on it; each request is removed once.
    pub fn new(echo: bool) -> Self {
        Self { echo, ..Self::default() }
    }

    /// A request goes out: what was received before is noise from now on.
    pub fn expect(&mut self, expected: Expected, request: &[u8]) {
        self.renew();
        self.expected = Some(expected);
        self.request.clear();
        self.request.extend_from_slice(request);
        (self.echoed, self.heard) = (false, false);
    }

    /// Forgets all that was received, and awaits nothing: a new connection begins.
    pub fn renew(&mut self) {
        self.tally.noise_bytes += self.reader.drop_text();
        self.expected = None;
    }

    /// The next sound frame, and how many bytes of `input` are done with; see [`super::rtu::ReplyDeframer::next`].
    pub fn next<'a>(&'a mut self, input: &[u8]) -> (Option<Frame<'a>>, usize) {
        let mut done = 0;
        while done < input.len() {
            let Some(expected) = self.expected else {
                self.tally.noise_bytes += (input.len() - done) as u64;
                return (None, input.len());
            };
            let (read, taken) = self.reader.read(&input[done..]);
            done += taken;
            self.heard |= self.reader.noise > 0;
            self.tally.noise_bytes += std::mem::take(&mut self.reader.noise);
            let Some(read) = read else { continue };
            let is_first = !std::mem::replace(&mut self.heard, true);
            if !(self.echo && self.echoed) && self.reader.text == self.request {
                self.tally.echo_bytes += self.reader.drop_text();
                self.tally.echo_suspected += u64::from(!self.echo && is_first);
                self.echoed = true;
                continue;
            }
            let len = self.reader.drop_text();
            let frame = self.reader.frame();
            let fits = frame.unit == expected.unit
                && match expected.fit(frame.pdu) {
                    Fit::Len(len) => frame.pdu.len() == len,
                    Fit::Any => true,
                    Fit::Begun | Fit::No => false,
                };
            if read == Read::Damaged {
                self.tally.crc_errors += u64::from(fits);
                self.tally.noise_bytes += len;
                continue;
            }
            if fits {
                self.expected = None;
            }
            return (Some(self.reader.frame()), done);
        }
        (None, done)
    }

    /// What was met since the last call.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }
}

/// A server's ear on an ASCII line. Bound: one frame.
#[derive(Debug, Default)]
pub struct RequestDeframer {
    reader: Reader,
}

impl RequestDeframer {
    /// The next sound frame, to whatever unit, and how many bytes of `input` are done with. Call with the rest until it
    /// gives none: then all of it is.
    pub fn next<'a>(&'a mut self, input: &[u8]) -> (Option<Frame<'a>>, usize) {
        let mut done = 0;
        loop {
            let (read, taken) = self.reader.read(&input[done..]);
            done += taken;
            match read {
                None => return (None, done),
                Some(Read::Damaged) => {
                    self.reader.drop_text();
                }
                Some(Read::Sound) => {
                    self.reader.drop_text();
                    return (Some(self.reader.frame()), done);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(echo: bool, request: &Request<'_>) -> ReplyDeframer {
        let mut ear = ReplyDeframer::new(echo);
        let mut sent = Vec::new();
        encode_request_frame(UnitId(1), request, &mut sent).unwrap();
        ear.expect(Expected::of(UnitId(1), request), &sent);
        ear
    }

    fn heard(ear: &mut ReplyDeframer, text: &[u8], chunk: usize) -> Vec<(u8, Vec<u8>)> {
        let mut all = Vec::new();
        for mut segment in text.chunks(chunk) {
            loop {
                let (frame, done) = ear.next(segment);
                segment = &segment[done..];
                let Some(frame) = frame else { break };
                all.push((frame.unit.0, frame.pdu.to_vec()));
            }
        }
        all
    }

    #[test]
    fn frames_are_spelt_as_the_standard_does() {
        // Unit 2, read holding register 1, one: 2+3+1+1 = 7, and 7 + F9 is 0.
        let mut out = b"x".to_vec();
        encode_request_frame(UnitId(2), &Request::ReadHoldingRegisters(1, 1), &mut out).unwrap();
        assert_eq!(out, b"x:020300010001F9\r\n");
        assert_eq!(lrc(&[0x02, 0x03, 0x00, 0x01, 0x00, 0x01]), 0xF9);
    }

    #[test]
    fn replies_are_found_in_noise_and_any_segmentation_in_either_case() {
        let request = Request::ReadHoldingRegisters(0, 1);
        // 1+3+2+2A = 30, and 30 + D0 is 0.
        for text in
            ["\0\u{7f}:01:010302002AD0\r\n??", ":010302002ad0\r\n", ":0103\r\n:010302002AD1\r\n:010302002AD0\r\n"]
        {
            for chunk in [1, 3, 1000] {
                let mut ear = asked(false, &request);
                assert_eq!(heard(&mut ear, text.as_bytes(), chunk), [(1, vec![3, 2, 0, 0x2A])], "{text:?}");
                assert_eq!(ear.take_tally().crc_errors, u64::from(text.contains("D1")));
            }
        }
    }

    #[test]
    fn f09_frames_of_others_are_given_and_the_awaited_one_found() {
        let mut text = Vec::new();
        encode_frame(UnitId(2), &[3, 2, 0, 1], &mut text);
        encode_frame(UnitId(1), &[3, 4, 0, 1, 0, 1], &mut text);
        encode_frame(UnitId(1), &[0x83, 2], &mut text);
        encode_frame(UnitId(1), &[3, 2, 0, 9], &mut text);
        let mut ear = asked(false, &Request::ReadHoldingRegisters(0, 1));
        let frames = heard(&mut ear, &text, 5);
        // What comes after the awaited reply is noise.
        assert_eq!(frames.iter().map(|f| (f.0, f.1.len())).collect::<Vec<_>>(), [(2, 4), (1, 6), (1, 2)]);
        assert_eq!(ear.take_tally().noise_bytes, 15);
    }

    #[test]
    fn f13_an_echo_is_no_reply() {
        let write = Request::WriteSingleRegister(7, 9);
        let mut sent = Vec::new();
        encode_request_frame(UnitId(1), &write, &mut sent).unwrap();
        assert_eq!(heard(&mut asked(true, &write), &sent, 4), []);
        let mut ear = asked(false, &write);
        assert_eq!(heard(&mut ear, &sent, 4), []);
        assert_eq!(ear.take_tally(), Tally { echo_bytes: 17, echo_suspected: 1, ..Tally::default() });
        let twice = [&sent[..], &sent].concat();
        assert_eq!(heard(&mut asked(true, &write), &twice, 4), [(1, vec![6, 0, 7, 0, 9])]);
    }

    proptest! {
        #[test]
        fn whatever_comes_nothing_panics_and_nothing_grows(text in proptest::collection::vec(any::<u8>(), 0..1500), chunk in 1..80usize) {
            let mut ear = asked(false, &Request::ReadHoldingRegisters(0, 1));
            heard(&mut ear, &text, chunk);
            prop_assert!(ear.reader.text.len() <= MAX_FRAME_LEN);
            let digits: Vec<u8> = text.iter().map(|b| b":0123456789ABCDEFabcdef\r\n"[usize::from(*b) % 25]).collect();
            heard(&mut ear, &digits, chunk);
            prop_assert!(ear.reader.text.len() <= MAX_FRAME_LEN);
        }

        #[test]
        fn a_server_hears_what_a_client_says(address in 0..60_000u16, words in proptest::collection::vec(any::<u16>(), 1..=123), chunk in 1..80usize) {
            let request = Request::WriteMultipleRegisters(address, words.into());
            let mut text = b"noise".to_vec();
            encode_request_frame(UnitId(9), &request, &mut text).unwrap();
            let mut ear = RequestDeframer::default();
            let mut found = Vec::new();
            for segment in text.chunks(chunk) {
                if let (Some(frame), done) = ear.next(segment) {
                    prop_assert_eq!(done, segment.len());
                    found.push((frame.unit, Request::try_from(bytes::Bytes::copy_from_slice(frame.pdu)).unwrap().into_owned()));
                }
            }
            prop_assert_eq!(found, [(UnitId(9), request)]);
        }
    }
}
