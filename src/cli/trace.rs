//! `--trace`: what goes over the wire, on standard error, for people: time, direction, bytes, and what they are.

use crate::gateway::{Clock, WIRE};
use crate::modbus::LineSpeed;
use crate::transport::LinkAddress;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::Registry;

/// How frames look on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frames {
    Mbap,
    Rtu,
    Ascii,
}

/// Starts writing every byte of the lines that are traced. Nothing else is logged by this process.
pub(super) fn start(link: &LinkAddress) {
    let frames = match link {
        LinkAddress::Serial(port) if port.ascii => Frames::Ascii,
        LinkAddress::RtuOverTcp(_) | LinkAddress::Serial(_) => Frames::Rtu,
        _ => Frames::Mbap,
    };
    // Were there a log already, there would be two.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(Lines(frames)));
}

/// The speed and silence of a serial link, said once at the beginning.
pub(super) fn pace(link: &LinkAddress) -> Option<String> {
    let LinkAddress::Serial(port) = link else { return None };
    let speed = LineSpeed { baud: port.baud, bits_per_character: port.bits_per_character() };
    let (character, silence) = (speed.time_of(1), speed.silence());
    Some(format!("{link}: {} baud, a character takes {character:.0?}, frames are {silence:.2?} apart", port.baud))
}

struct Lines(Frames);

impl<S: Subscriber> tracing_subscriber::Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != WIRE {
            return;
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        let bytes: Vec<u8> =
            message.0.split_whitespace().skip(1).filter_map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        let sent = message.0.starts_with("->");
        let mut line = format!("{} {}", Clock::wall(), message.0);
        if let Some(what) = describe(self.0, sent, &bytes) {
            let _ = write!(line, "  | {what}");
        }
        // Whoever closed standard error wants no trace.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// What whole frames say; nothing for pieces of one.
fn describe(frames: Frames, sent: bool, bytes: &[u8]) -> Option<String> {
    let text;
    let (prefix, unit, pdu) = match frames {
        Frames::Mbap => match bytes {
            [t, d, 0, 0, high, low, unit, pdu @ ..]
                if pdu.len() + 1 == usize::from(u16::from_be_bytes([*high, *low])) =>
            {
                (format!("transaction {}, ", u16::from_be_bytes([*t, *d])), *unit, pdu)
            }
            _ => return None,
        },
        Frames::Rtu => match bytes {
            [unit, pdu @ .., _, _] if crate::modbus::rtu::is_sound(bytes) => (String::new(), *unit, pdu),
            _ => return None,
        },
        Frames::Ascii => {
            let digits = bytes.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
            let (pairs, _) = digits.as_chunks::<2>();
            let digit = |c: u8| char::from(c).to_digit(16);
            text =
                pairs.iter().map(|[a, b]| Some((digit(*a)? * 16 + digit(*b)?) as u8)).collect::<Option<Vec<u8>>>()?;
            match &*text {
                [unit, pdu @ .., _] => (String::new(), *unit, pdu),
                _ => return None,
            }
        }
    };
    Some(format!("{prefix}unit {unit}: {}", if sent { asked(pdu)? } else { answered(pdu)? }))
}

fn asked(pdu: &[u8]) -> Option<String> {
    let (function, rest) = pdu.split_first()?;
    let name = function_name(*function);
    Some(match rest {
        [a, b, c, d, ..] => {
            let (address, second) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
            match function {
                1..=4 | 15 | 16 => format!("{name}, {second} from {address} on"),
                5 | 6 => format!("{name} {address}, value {second}"),
                _ => name,
            }
        }
        _ => name,
    })
}

fn answered(pdu: &[u8]) -> Option<String> {
    Some(match pdu {
        [function, code] if *function >= 0x80 => {
            format!("exception {code} ({}) to: {}", exception_name(*code), function_name(function & 0x7F))
        }
        [function @ (1 | 2), count, values @ ..] if usize::from(*count) == values.len() => {
            format!("{} bytes of bits to: {}", values.len(), function_name(*function))
        }
        [function @ (3 | 4), count, values @ ..] if usize::from(*count) == values.len() => {
            format!("{} registers to: {}", values.len() / 2, function_name(*function))
        }
        [function, ..] => format!("to: {}", function_name(*function)),
        [] => return None,
    })
}

fn function_name(function: u8) -> String {
    let name = match function {
        1 => "read coils",
        2 => "read discrete inputs",
        3 => "read holding registers",
        4 => "read input registers",
        5 => "write coil",
        6 => "write register",
        15 => "write coils",
        16 => "write registers",
        _ => return format!("function 0x{function:02X}"),
    };
    name.to_owned()
}

/// Application Protocol V1.1b3, 7.
fn exception_name(code: u8) -> &'static str {
    match code {
        1 => "illegal function",
        2 => "illegal data address",
        3 => "illegal data value",
        4 => "server device failure",
        5 => "acknowledge",
        6 => "server device busy",
        8 => "memory parity error",
        0x0A => "gateway path unavailable",
        0x0B => "gateway target failed to respond",
        _ => "a code of its own",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_said_in_words_and_pieces_are_not() {
        let say = |frames, sent, bytes: &[u8]| describe(frames, sent, bytes).unwrap_or_default();
        let request = [0, 5, 0, 0, 0, 6, 1, 3, 0, 100, 0, 2];
        assert_eq!(say(Frames::Mbap, true, &request), "transaction 5, unit 1: read holding registers, 2 from 100 on");
        assert_eq!(say(Frames::Mbap, true, &request[..11]), "");
        assert_eq!(
            say(Frames::Mbap, false, &[0, 5, 0, 0, 0, 3, 1, 0x84, 2]),
            "transaction 5, unit 1: exception 2 (illegal data address) to: read input registers"
        );
        // The frames of F14, and with a wrong checksum.
        assert_eq!(
            say(Frames::Rtu, false, &[1, 3, 2, 0, 42, 0x39, 0x9B]),
            "unit 1: 1 registers to: read holding registers"
        );
        assert_eq!(say(Frames::Rtu, false, &[1, 3, 2, 0, 43, 0x39, 0x9B]), "");
        assert_eq!(say(Frames::Ascii, true, b":010300000001FB\r\n"), "unit 1: read holding registers, 1 from 0 on");
        assert_eq!(say(Frames::Ascii, false, b":0103"), "");
    }
}
