//! Frames from the field, in every segmentation, in noise and beside frames of others.

use super::*;
use crate::modbus::expected::Shape;
use proptest::prelude::*;
use std::path::Path;

type Owned = (u8, Vec<u8>);

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}

fn request_bytes(unit: u8, request: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    encode_request_frame(UnitId(unit), request, &mut out).unwrap();
    out
}

fn asked(echo: bool, unit: u8, request: &Request<'_>) -> ReplyDeframer {
    let mut ear = ReplyDeframer::new(echo);
    ear.expect(Expected::of(UnitId(unit), request), &request_bytes(unit, request));
    ear
}

/// All frames of what comes in these segments.
fn heard<'a>(ear: &mut ReplyDeframer, segments: impl IntoIterator<Item = &'a [u8]>) -> Vec<Owned> {
    let mut all = Vec::new();
    for mut segment in segments {
        loop {
            let (frame, done) = ear.next(segment);
            segment = &segment[done..];
            let Some(frame) = frame else { break };
            all.push((frame.unit.0, frame.pdu.to_vec()));
        }
    }
    all
}

/// Whole, byte by byte, and cut in two at every place: all must give the same.
fn heard_any_way(echo: bool, unit: u8, request: &Request<'_>, received: &[u8]) -> (Vec<Owned>, Tally) {
    let judge = |segments: Vec<&[u8]>| {
        let mut ear = asked(echo, unit, request);
        let frames = heard(&mut ear, segments);
        ear.forget();
        (frames, ear.take_tally())
    };
    let whole = judge(vec![received]);
    assert_eq!(judge(received.chunks(1).collect()), whole);
    for cut in 0..=received.len() {
        assert_eq!(judge(vec![&received[..cut], &received[cut..]]), whole, "cut at {cut}");
    }
    whole
}

fn reply(unit: u8, registers: &[u16]) -> Vec<u8> {
    let mut pdu = Vec::new();
    crate::modbus::encode_registers(3, registers, &mut pdu);
    let mut out = Vec::new();
    encode_frame(UnitId(unit), &pdu, &mut out);
    out
}

#[test]
fn crcs_printed_in_manuals_are_right_and_misprints_are_not() {
    let path = Path::new("../shared/data/dumps/rtu_crc_vectors.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        println!("skipped: no ../shared");
        return;
    };
    let vectors: serde_json::Value = serde_json::from_str(&text).unwrap();
    let frames = |key: &str| -> Vec<Vec<u8>> {
        vectors[key].as_array().unwrap().iter().map(|v| hex(v["frame"].as_str().unwrap())).collect()
    };
    let (valid, misprints) = (frames("valid"), frames("printed_wrong_must_be_rejected"));
    assert_eq!((valid.len(), misprints.len()), (34, 2));
    for frame in &valid {
        assert!(is_sound(frame), "{frame:02X?}");
        let mut sealed = frame[..frame.len() - 2].to_vec();
        seal(0, &mut sealed);
        assert_eq!(&sealed, frame);
    }
    assert!(misprints.iter().all(|frame| !is_sound(frame)));
}

#[test]
fn f13_an_echo_is_removed_and_without_the_option_suspected() {
    let request = Request::ReadCoils(0, 31);
    assert_eq!(request_bytes(1, &request), hex("01 01 00 00 00 1F 7D C2"));
    let received = hex("01 01 00 00 00 1F 7D C2 01 01 04 10 00 00 10 FE DD");
    let coils = vec![(1, hex("01 04 10 00 00 10"))];
    let (frames, tally) = heard_any_way(true, 1, &request, &received);
    assert_eq!((frames, tally), (coils.clone(), Tally { echo_bytes: 8, ..Tally::default() }));
    let (frames, tally) = heard_any_way(false, 1, &request, &received);
    assert_eq!((frames, tally), (coils, Tally { echo_bytes: 8, echo_suspected: 1, ..Tally::default() }));
}

#[test]
fn f13_an_echo_without_a_reply_is_no_reply() {
    // 20 coils from 0x0304 on: the request is, byte for byte, a sound reply to itself.
    let request = Request::ReadCoils(0x0304, 20);
    let echo = request_bytes(1, &request);
    assert!(is_sound(&echo) && echo[2] == 3);
    assert_eq!(heard_any_way(false, 1, &request, &echo).0, []);
    assert_eq!(heard_any_way(true, 1, &request, &echo).0, []);
    // On an echoing line the second of two is the reply.
    let twice = [&echo[..], &echo].concat();
    assert_eq!(heard_any_way(true, 1, &request, &twice).0, [(1, echo[1..6].to_vec())]);
    // A write of one register is answered by its like: an absent unit must not seem to answer.
    let write = Request::WriteSingleRegister(7, 9);
    let echo = request_bytes(1, &write);
    assert_eq!(heard_any_way(true, 1, &write, &echo).0, []);
    let twice = [&echo[..], &echo].concat();
    assert_eq!(heard_any_way(true, 1, &write, &twice).0, [(1, echo[1..6].to_vec())]);
}

#[test]
fn f14_echoes_are_known_by_content_not_by_count() {
    let request = Request::ReadHoldingRegisters(0, 1);
    let sent = request_bytes(1, &request);
    assert_eq!(sent, hex("01 03 00 00 00 01 84 0A"));
    let reply = hex("01 03 02 00 2A 39 9B");
    let good = vec![(1, hex("03 02 00 2A"))];
    assert_eq!(heard_any_way(true, 1, &request, &[&sent[..], &reply].concat()).0, good);
    for lost in 0..8 {
        let mut partial = sent.clone();
        partial.remove(lost);
        assert_eq!(heard_any_way(true, 1, &request, &[&partial[..], &reply].concat()).0, good, "byte {lost} lost");
        let mut altered = sent.clone();
        altered[lost] ^= 0x10;
        let frames = heard_any_way(true, 1, &request, &[&altered[..], &reply].concat()).0;
        assert_eq!(frames, good, "byte {lost} altered");
    }
}

#[test]
fn f15_a_stray_byte_before_the_reply_is_noise() {
    let request = Request::ReadHoldingRegisters(0x18, 9);
    assert_eq!(request_bytes(2, &request), hex("02 03 00 18 00 09 05 F8"));
    let received = hex("00 02 03 12 00000000 00000014 53F00014 53F00000 0014 6F 73");
    let (frames, tally) = heard_any_way(false, 2, &request, &received);
    assert_eq!(frames, [(2, received[2..22].to_vec())]);
    assert_eq!(tally, Tally { noise_bytes: 1, ..Tally::default() });
}

#[test]
fn f16_bytes_after_a_reply_are_dropped_before_the_next_request() {
    let request = Request::ReadHoldingRegisters(0, 1);
    let mut ear = asked(false, 1, &request);
    let frames = heard(&mut ear, [&hex("01 03 02 00 2A 39 9B 00 00 FF")[..]]);
    assert_eq!(frames, [(1, hex("03 02 00 2A"))]);
    ear.expect(Expected::of(UnitId(1), &request), &request_bytes(1, &request));
    assert_eq!(ear.take_tally(), Tally { noise_bytes: 3, ..Tally::default() });
    assert_eq!(heard(&mut ear, [&reply(1, &[7])[..]]), [(1, hex("03 02 00 07"))]);
}

#[test]
fn f22_bytes_before_the_first_request_are_dropped() {
    let mut ear = ReplyDeframer::new(false);
    assert_eq!(heard(&mut ear, [&hex("00 11 22 33 44 55")[..]]), []);
    assert_eq!(ear.take_tally().noise_bytes, 6);
    // And where they come after it, they are noise before the reply.
    let received = [&hex("00 11 22 33 44 55")[..], &reply(1, &[7])].concat();
    assert_eq!(heard_any_way(false, 1, &Request::ReadHoldingRegisters(0, 1), &received).0, [(1, hex("03 02 00 07"))]);
}

#[test]
fn f09_a_frame_of_another_unit_is_given_whole_and_the_right_one_found() {
    // What the other says contains our reply.
    let ours = reply(1, &[5]);
    let words: Vec<u16> =
        [&[0x63][..], &ours].concat().as_chunks::<2>().0.iter().map(|w| u16::from_be_bytes(*w)).collect();
    let other = reply(2, &words);
    let mut ear = asked(false, 1, &Request::ReadHoldingRegisters(0, 1));
    let frames = heard(&mut ear, [&other[..], &reply(1, &[7])]);
    assert_eq!(frames.iter().map(|f| f.0).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(frames[1].1, hex("03 02 00 07"));
}

#[test]
fn a_reply_of_another_length_or_function_is_given_and_the_awaited_one_found() {
    let short = hex("01 03 02 00 2A 39 9B");
    let mut other_function = hex("01 04 04 00 01 00 02");
    seal(0, &mut other_function);
    let received = [&short[..], &other_function, &reply(1, &[1, 2])].concat();
    let (frames, tally) = heard_any_way(false, 1, &Request::ReadHoldingRegisters(0, 2), &received);
    let pdus: Vec<_> = frames.iter().map(|f| f.1.clone()).collect();
    assert_eq!(pdus, [hex("03 02 00 2A"), hex("04 04 00 01 00 02"), hex("03 04 00 01 00 02")]);
    assert_eq!(tally, Tally::default());
}

#[test]
fn f49_an_exception_is_five_bytes_with_any_code() {
    for code in [0, 2, 0x0B, 0x80, 0xFF] {
        let mut received = vec![1, 0x83, code];
        seal(0, &mut received);
        assert_eq!(
            heard_any_way(false, 1, &Request::ReadHoldingRegisters(0, 100), &received).0,
            [(1, vec![0x83, code])]
        );
    }
}

#[test]
fn a_damaged_reply_is_counted_once_and_a_good_one_after_it_found() {
    let request = Request::ReadHoldingRegisters(0, 4);
    let good = reply(1, &[1, 2, 3, 4]);
    let mut damaged = good.clone();
    damaged[6] ^= 4;
    let (frames, tally) = heard_any_way(false, 1, &request, &[&damaged[..], &good].concat());
    assert_eq!(frames.len(), 1);
    assert_eq!(tally, Tally { noise_bytes: 13, crc_errors: 1, ..Tally::default() });
}

#[test]
fn replies_of_unknown_length_are_found_by_their_checksum() {
    let request = Request::Custom(65, vec![1, 2].into());
    let mut frame = vec![9, 65, 1, 2, 3, 4, 5];
    seal(0, &mut frame);
    assert_eq!(heard_any_way(false, 9, &request, &frame).0, [(9, vec![65, 1, 2, 3, 4, 5])]);
    assert_eq!(Expected::of(UnitId(9), &request).shape, Shape::Any);
}

#[test]
fn a_server_finds_requests_in_noise_and_of_all_kinds() {
    let requests = [
        Request::ReadHoldingRegisters(1, 2),
        Request::WriteMultipleRegisters(5, vec![1, 2, 3].into()),
        Request::WriteMultipleCoils(5, vec![true; 11].into()),
        Request::MaskWriteRegister(1, 2, 3),
        Request::ReadWriteMultipleRegisters(1, 2, 3, vec![4, 5].into()),
        Request::ReportServerId,
        Request::Custom(70, vec![1, 2, 3].into()),
    ];
    let mut stream = vec![0, 0xFF];
    for request in &requests {
        stream.extend(request_bytes(17, request));
    }
    for chunk in [1, 3, 7, 1000] {
        let mut ear = RequestDeframer::default();
        let mut found = Vec::new();
        for mut segment in stream.chunks(chunk) {
            loop {
                let (frame, done) = ear.next(segment);
                segment = &segment[done..];
                let Some(frame) = frame else { break };
                assert_eq!(frame.unit, UnitId(17));
                found.push(Request::try_from(bytes::Bytes::copy_from_slice(frame.pdu)).unwrap());
            }
        }
        assert_eq!(found, requests, "in chunks of {chunk}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn the_reply_is_found_in_any_noise_and_any_segmentation(
        noise in proptest::collection::vec(any::<u8>(), 0..=250),
        after in proptest::collection::vec(any::<u8>(), 0..=50),
        words in proptest::collection::vec(any::<u16>(), 1..=60),
        chunk in 1..=64usize,
        unit in 1..=247u8,
    ) {
        let received = [&noise[..], &reply(unit, &words), &after].concat();
        let request = Request::ReadHoldingRegisters(0, words.len() as u16);
        let mut ear = asked(false, unit, &request);
        let frames = heard(&mut ear, received.chunks(chunk));
        let mut pdu = Vec::new();
        crate::modbus::encode_registers(3, &words, &mut pdu);
        prop_assert!(frames.contains(&(unit, pdu)));
        ear.forget();
        let given: usize = frames.iter().map(|f| f.1.len() + 3).sum();
        prop_assert!(ear.take_tally().noise_bytes as usize + given >= received.len());
    }

    #[test]
    fn whatever_comes_nothing_unsound_is_given_and_nothing_grows(
        segments in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..6),
        echo in any::<bool>(),
        quantity in 1..=125u16,
    ) {
        let mut ear = asked(echo, 1, &Request::ReadHoldingRegisters(0, quantity));
        let all: Vec<u8> = segments.concat();
        for segment in &segments {
            let mut rest = &segment[..];
            loop {
                let (frame, done) = ear.next(rest);
                rest = &rest[done..];
                let Some(frame) = frame else { break };
                let mut again = Vec::new();
                encode_frame(frame.unit, frame.pdu, &mut again);
                prop_assert!(is_sound(&again));
                // As it came, not as it would be right.
                prop_assert!(all.windows(again.len()).any(|w| w == again));
            }
            prop_assert!(ear.held.len() <= HELD_MAX);
        }
        let mut server = RequestDeframer::default();
        for segment in &segments {
            let mut rest = &segment[..];
            while let (Some(_), done) = server.next(rest) {
                rest = &rest[done..];
            }
            prop_assert!(server.held.len() <= HELD_MAX);
        }
    }

    #[test]
    fn a_reply_to_another_request_is_never_taken_for_the_awaited_one(
        unit in 1..=3u8, function in 1..=4u8, count in 1..=8u8, data in proptest::collection::vec(any::<u8>(), 8),
        cut in 0..=13usize,
    ) {
        let mut other = [&[unit, function, count], &data[..usize::from(count)]].concat();
        seal(0, &mut other);
        let cut = cut.min(other.len());
        let mut ear = asked(false, 1, &Request::ReadHoldingRegisters(0, 2));
        for (u, pdu) in heard(&mut ear, [&other[..cut], &other[cut..]]) {
            let fits = u == 1 && pdu[0] == 3 && pdu[1] == 4;
            prop_assert_eq!(fits, (unit, function, count) == (1, 3, 4));
        }
    }
}
