//! Text and bytes out of registers.
//!
//! ```text
//! register      0         1         2
//! bytes      'P' 'r'   'o' '3'   NUL ' '     → "Pro3"
//! ```
//!
//! Text ends at the first NUL, trailing blanks go. What is no UTF-8, and every control character, becomes U+FFFD: it
//! never reaches a payload, and its place shows. All NUL is the empty text, which is a value.

use std::fmt::Write;
use std::sync::Arc;

/// The text of bytes in reading order.
pub(super) fn text(bytes: &[u8]) -> Arc<str> {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    let text = text.trim_end_matches(' ');
    if text.contains(char::is_control) { text.replace(char::is_control, "\u{FFFD}").into() } else { text.into() }
}

/// Bytes as lower-case hex digits.
pub(super) fn hex_bytes(bytes: &[u8]) -> Arc<str> {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing into a String cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn f72_text_ends_at_the_first_nul_and_carries_no_control_character() {
        assert_eq!(&*text(b"\x20VNSE3\0-0\0"), " VNSE3");
        assert_eq!(&*text(b"AB\x07\xFF\0"), "AB\u{FFFD}\u{FFFD}");
        assert_eq!(&*text(&[0; 10]), "");
        assert_eq!(&*text(b"SMA   "), "SMA");
        assert_eq!(&*text("Größe  \0x".as_bytes()), "Größe");
        assert_eq!(&*text(b""), "");
    }

    #[test]
    fn bytes_print_as_lower_case_hex() {
        assert_eq!(&*hex_bytes(&[0x00, 0xAB, 0x1F]), "00ab1f");
    }

    proptest! {
        #[test]
        fn no_bytes_panic_or_leak_control_characters(bytes: Vec<u8>) {
            prop_assert!(!text(&bytes).contains(char::is_control));
        }
    }
}
