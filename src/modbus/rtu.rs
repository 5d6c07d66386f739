//! The envelope of serial lines (MODBUS over Serial Line V1.02, 2.5.1), also carried over TCP by simple converters.
//!
//! ```text
//!  0     1          2
//! ┌─────┬──────────┬──────────────┬────────────────┐
//! │unit │ function │ data         │ CRC, low first │
//! └─────┴──────────┴──────────────┴────────────────┘
//!        ── PDU, 1 to 253 bytes ──
//! ```
//!
//! A frame names neither its length nor its request, and what is received may begin and end with anything: an echo of
//! the request, a glitch of the line, a late reply of another unit. So a client does not cut a stream into frames: it
//! knows which reply it awaits ([`Expected`]) and looks for that one at every place, by unit, function, length and CRC.
//!
//! [`ReplyDeframer`] is a client's ear: [`expect`](ReplyDeframer::expect) at each request, then
//! [`next`](ReplyDeframer::next) with whatever comes. [`RequestDeframer`] is a server's.

use super::expected::{Expected, Fit, fit_any_reply, fit_any_request};
use super::{MAX_PDU_LEN, RequestError, UnitId, encode_request};
use tokio_modbus::Request;

/// Longest frame.
pub const MAX_FRAME_LEN: usize = 1 + MAX_PDU_LEN + CRC_LEN;
/// Most received bytes that are kept; the oldest go first.
pub const HELD_MAX: usize = 512;
const CRC_LEN: usize = 2;
/// Shortest frame: unit, function and CRC.
const MIN_FRAME_LEN: usize = 2 + CRC_LEN;

/// CRC-16/MODBUS: polynomial 0x8005 reflected, beginning with 0xFFFF. It stands low byte first.
pub fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |crc, byte| crc_with(crc, *byte))
}

fn crc_with(crc: u16, byte: u8) -> u16 {
    (crc >> 8) ^ CRC_TABLE[usize::from((crc as u8) ^ byte)]
}

/// Appends the CRC of the frame that begins at `start` and ends with `out`.
pub fn seal(start: usize, out: &mut Vec<u8>) {
    let crc = crc16(&out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// Whether a whole frame's CRC is right.
pub fn is_sound(frame: &[u8]) -> bool {
    frame.len() >= MIN_FRAME_LEN && crc16(frame) == 0
}

/// Appends one request as a frame; appends nothing where it is refused.
pub fn encode_request_frame(unit: UnitId, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), RequestError> {
    let start = out.len();
    out.push(unit.0);
    if let Err(e) = encode_request(request, out) {
        out.truncate(start);
        return Err(e);
    }
    seal(start, out);
    Ok(())
}

/// Appends a PDU (a reply, by a pretend device) as a frame.
pub fn encode_frame(unit: UnitId, pdu: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.push(unit.0);
    out.extend_from_slice(pdu);
    seal(start, out);
}

/// A frame with a sound checksum, as a view over what is held. Not more than that has been believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Whose it is.
    pub unit: UnitId,
    /// Function code and data; never empty.
    pub pdu: &'a [u8],
}

/// What a serial deframer met that is no frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bytes that belonged to nothing: before, between and after frames.
    pub noise_bytes: u64,
    /// Bytes of requests that came back to us.
    pub echo_bytes: u64,
    /// Frames of the awaited shape with a wrong checksum.
    pub crc_errors: u64,
    /// Times that what was received began with exactly the request although the line is not said to echo.
    pub echo_suspected: u64,
}

/// A client's ear on a serial line. Bound: [`HELD_MAX`] bytes, whatever comes.
#[derive(Debug, Default)]
pub struct ReplyDeframer {
    /// The line gives back what is sent.
    echo: bool,
    expected: Option<Expected>,
    /// The request, as it went out: its echo is known by its content.
    request: Vec<u8>,
    /// The line's echo of it has come.
    echoed: bool,
    held: Vec<u8>,
    /// The first bytes of `held` that were given out, or are done with: they go before anything else is done.
    spent: usize,
    /// Bytes since the request that are no longer held.
    gone: u64,
    /// Place, counted since the request, up to which damaged frames have been counted.
    judged: u64,
    tally: Tally,
}

/// What was found in the held bytes.
enum Found {
    /// The awaited reply: first byte, byte after its last.
    Reply(usize, usize),
    /// Another frame: first byte, byte after its last, and how far it is done with.
    Other(usize, usize, usize),
    /// The request, come back: first byte.
    Echo(usize),
    /// Nothing yet, and nothing of interest begins before here.
    Nothing(usize),
}

impl ReplyDeframer {
    /// An ear that awaits nothing. `echo`: the line gives back all that is sent on it; each request is removed once.
    pub fn new(echo: bool) -> Self {
        Self { echo, ..Self::default() }
    }

    /// A request goes out: what was received before is noise from now on.
    pub fn expect(&mut self, expected: Expected, request: &[u8]) {
        self.forget();
        self.expected = Some(expected);
        self.request.clear();
        self.request.extend_from_slice(request);
        self.echoed = false;
    }

    /// Forgets all that was received, and awaits nothing: a new connection begins.
    pub fn renew(&mut self) {
        self.forget();
        self.expected = None;
    }

    /// The next sound frame in what was received, and how many bytes of `input` are done with. Call with the rest until
    /// it gives none: then all of it is.
    ///
    /// Frames of others (another unit, function or length) are given too, so that they can be counted. After the awaited
    /// reply all further bytes are noise, until [`expect`](Self::expect).
    pub fn next<'a>(&'a mut self, input: &[u8]) -> (Option<Frame<'a>>, usize) {
        let mut done = 0;
        loop {
            self.drop_front(self.spent);
            self.spent = 0;
            match self.find() {
                Found::Reply(start, end) => {
                    self.expected = None;
                    return (Some(self.give(start, end, end)), done);
                }
                Found::Other(start, end, cut) => return (Some(self.give(start, end, cut)), done),
                Found::Echo(start) => {
                    let len = self.request.len();
                    self.tally.noise_bytes += start as u64;
                    self.tally.echo_bytes += len as u64;
                    self.tally.echo_suspected += u64::from(!self.echo && self.gone + start as u64 == 0);
                    self.echoed = true;
                    self.drop_front(start + len);
                }
                Found::Nothing(until) => {
                    self.tally.noise_bytes += until as u64;
                    self.drop_front(until);
                    if done == input.len() {
                        return (None, done);
                    }
                    let chunk = (input.len() - done).min(HELD_MAX / 2);
                    let oldest = (self.held.len() + chunk).saturating_sub(HELD_MAX);
                    self.tally.noise_bytes += oldest as u64;
                    self.drop_front(oldest);
                    self.held.extend_from_slice(&input[done..done + chunk]);
                    done += chunk;
                }
            }
        }
    }

    /// What was met since the last call. Bytes still held count later.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    fn forget(&mut self) {
        self.tally.noise_bytes += (self.held.len() - self.spent) as u64;
        self.held.clear();
        (self.spent, self.gone, self.judged) = (0, 0, 0);
    }

    fn drop_front(&mut self, count: usize) {
        self.held.drain(..count);
        self.gone += count as u64;
    }

    fn give(&mut self, start: usize, end: usize, cut: usize) -> Frame<'_> {
        self.tally.noise_bytes += start as u64;
        self.spent = cut;
        Frame { unit: UnitId(self.held[start]), pdu: &self.held[start + 1..end - CRC_LEN] }
    }

    fn find(&mut self) -> Found {
        let Some(expected) = self.expected else { return Found::Nothing(self.held.len()) };
        // The first place where the awaited reply, or anything else, may have begun and not ended.
        let mut begun: Option<usize> = None;
        let mut reply_begun = false;
        for start in 0..self.held.len() {
            let bytes = &self.held[start..];
            // Where the line is not said to echo, no bytes like the request are ever believed: some requests to read
            // coils are, byte for byte, a possible reply to themselves.
            if !(self.echo && self.echoed) {
                if bytes.starts_with(&self.request) {
                    return Found::Echo(start);
                }
                if self.request.starts_with(bytes) {
                    return Found::Nothing(begun.unwrap_or(start));
                }
            }
            match judge(bytes, expected) {
                Judged::Reply(len) => return Found::Reply(start, start + len),
                Judged::Damaged => {
                    let place = self.gone + start as u64;
                    if place >= self.judged {
                        self.judged = place + 1;
                        self.tally.crc_errors += 1;
                    }
                }
                Judged::Begun => {
                    reply_begun = true;
                    begun.get_or_insert(start);
                    continue;
                }
                Judged::No => {}
            }
            // Long replies have, by chance, what looks like a short frame of another: while the awaited one may be
            // under way nothing within it is looked at.
            if reply_begun {
                continue;
            }
            match sound_frame(bytes, fit_any_reply) {
                Sound::Frame(len) => {
                    let end = start + len;
                    return Found::Other(start, end, self.overlapped(start + 1, end, expected));
                }
                Sound::Begun => {
                    begun.get_or_insert(start);
                }
                Sound::No => {}
            }
        }
        Found::Nothing(begun.unwrap_or(self.held.len()))
    }

    /// How far a frame of another is done with: not beyond where the awaited reply begins that reaches further. One that
    /// lies wholly within is data of that other frame.
    fn overlapped(&self, from: usize, end: usize, expected: Expected) -> usize {
        let reaches_beyond = |start: &usize| match judge(&self.held[*start..], expected) {
            Judged::Reply(len) => start + len > end,
            Judged::Begun => true,
            Judged::Damaged | Judged::No => false,
        };
        (from..end).find(reaches_beyond).unwrap_or(end)
    }
}

enum Judged {
    Reply(usize),
    /// All that came so far fits.
    Begun,
    /// The right shape with a wrong checksum.
    Damaged,
    No,
}

/// Whether the awaited reply begins here.
fn judge(bytes: &[u8], expected: Expected) -> Judged {
    if bytes.first() != Some(&expected.unit.0) {
        return Judged::No;
    }
    match sound_frame(bytes, |pdu| expected.fit(pdu)) {
        Sound::Frame(len) => Judged::Reply(len),
        Sound::Begun => Judged::Begun,
        Sound::No if matches!(expected.fit(&bytes[1..]), Fit::Len(_)) => Judged::Damaged,
        Sound::No => Judged::No,
    }
}

enum Sound {
    Frame(usize),
    Begun,
    No,
}

/// Whether a frame with a sound checksum begins here, its PDU being one that `fit` allows.
fn sound_frame(bytes: &[u8], fit: impl Fn(&[u8]) -> Fit) -> Sound {
    match fit(bytes.get(1..).unwrap_or_default()) {
        Fit::No => Sound::No,
        Fit::Begun => Sound::Begun,
        Fit::Len(pdu) => {
            let len = 1 + pdu + CRC_LEN;
            match bytes.get(..len) {
                None => Sound::Begun,
                Some(frame) if is_sound(frame) => Sound::Frame(len),
                Some(_) => Sound::No,
            }
        }
        Fit::Any => {
            let most = bytes.len().min(MAX_FRAME_LEN);
            // The remainder over a frame with its checksum is nothing.
            let mut crc = 0xFFFF;
            let mut remainders = bytes[..most].iter().map(|byte| {
                crc = crc_with(crc, *byte);
                crc
            });
            match remainders.by_ref().skip(MIN_FRAME_LEN - 1).position(|r| r == 0).map(|i| i + MIN_FRAME_LEN) {
                Some(len) => Sound::Frame(len),
                None if most < MAX_FRAME_LEN => Sound::Begun,
                None => Sound::No,
            }
        }
    }
}

/// A server's ear on a serial line: finds requests to anybody. Bound: [`HELD_MAX`] bytes.
#[derive(Debug, Default)]
pub struct RequestDeframer {
    held: Vec<u8>,
    spent: usize,
}

impl RequestDeframer {
    /// The next request, to whatever unit, and how many bytes of `input` are done with. Call with the rest until it
    /// gives none: then all of it is. Bytes that are no request are skipped.
    pub fn next<'a>(&'a mut self, input: &[u8]) -> (Option<Frame<'a>>, usize) {
        let mut done = 0;
        loop {
            self.held.drain(..self.spent);
            self.spent = 0;
            let mut begun = None;
            let mut found = None;
            for start in 0..self.held.len() {
                match sound_frame(&self.held[start..], fit_any_request) {
                    Sound::Frame(len) => {
                        found = Some((start, start + len));
                        break;
                    }
                    Sound::Begun => {
                        begun.get_or_insert(start);
                    }
                    Sound::No => {}
                }
            }
            if let Some((start, end)) = found {
                self.spent = end;
                let pdu = &self.held[start + 1..end - CRC_LEN];
                return (Some(Frame { unit: UnitId(self.held[start]), pdu }), done);
            }
            self.held.drain(..begun.unwrap_or(self.held.len()));
            if done == input.len() {
                return (None, done);
            }
            let chunk = (input.len() - done).min(HELD_MAX / 2);
            let oldest = (self.held.len() + chunk).saturating_sub(HELD_MAX);
            self.held.drain(..oldest);
            self.held.extend_from_slice(&input[done..done + chunk]);
            done += chunk;
        }
    }

    /// The line was silent for 3.5 characters: what has begun will not go on.
    pub fn silence(&mut self) {
        self.held.clear();
        self.spent = 0;
    }
}

const CRC_TABLE: [u16; 256] = crc_table();

const fn crc_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xA001 } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests;
