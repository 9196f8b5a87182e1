use super::*;
use crate::core::headers::tests::TRACED;

fn all() -> Vec<Frame<'static>> {
    vec![
        Frame::Ping,
        Frame::Farewell(Farewell::Leaving),
        Frame::Read(u32::MAX),
        Frame::Message { channel: "registry/orders", body: b"hello" },
        Frame::Message { channel: "", body: b"" },
        Frame::Piece { channel: "snapshot", rest: 17, body: &[0; 300] },
        Frame::Cast { to: u64::MAX, kind: u64::MAX, headers: Headers::NONE, variant: "Add", args: b"1" },
        Frame::Cast { to: 1, kind: 2, headers: TRACED, variant: "Add", args: b"" },
        Frame::CastAll { to: b"\x92\x01\x02", kind: 2, headers: TRACED, variant: "Add", args: b"1" },
        Frame::Call {
            to: 1,
            kind: u64::MAX,
            tag: u64::MAX,
            timeout_ms: Some(u64::MAX),
            headers: TRACED,
            variant: "Get",
            args: b"",
        },
        Frame::Call {
            to: 1,
            kind: 2,
            tag: 3,
            timeout_ms: None,
            headers: Headers::NONE,
            variant: "Get",
            args: &[7; 70_000],
        },
        Frame::Reply { tag: 3, body: b"answer" },
        Frame::NoReply { tag: 3, why: NotDelivered::Gone },
        Frame::Undelivered { to: 3, kind: 9, why: NotDelivered::WrongKind },
        Frame::Watch { to: u64::MAX, kind: u64::MAX },
        Frame::Watching { to: u64::MAX, kind: u64::MAX },
        Frame::Ended { to: u64::MAX, kind: u64::MAX, how: How::Stopped(None) },
        Frame::Ended { to: 3, kind: 9, how: How::Stopped(Some("reason")) },
        Frame::Ended { to: 3, kind: 9, how: How::Failed("text") },
        Frame::Ended { to: 3, kind: 9, how: How::Not(NotDelivered::NotExported) },
        Frame::Ended { to: 3, kind: 9, how: How::TooMany(u32::MAX) },
    ]
}

#[test]
fn every_frame_reads_back_as_it_was_written_and_is_no_longer_than_announced() {
    for frame in all() {
        let mut out = BytesMut::new();
        frame.put(&mut out);
        assert!(out.len() <= frame.length(), "{frame:?}");
        let taken = take(&mut out, 1 << 20).unwrap().unwrap();
        assert_eq!(Frame::get(&taken).unwrap(), frame);
        assert!(out.is_empty());
    }
}

#[test]
fn a_frame_that_is_not_all_there_is_waited_for() {
    let mut whole = BytesMut::new();
    Frame::Message { channel: "c", body: b"0123456789" }.put(&mut whole);
    for cut in 0..whole.len() {
        let mut part = BytesMut::from(&whole[..cut]);
        assert_eq!(take(&mut part, 100), Ok(None), "{cut} bytes");
        assert_eq!(part.len(), cut, "nothing is taken");
    }
}

#[test]
fn a_length_above_the_limit_is_refused_before_its_bytes_come() {
    for limit in [HANDSHAKE_FRAME, 4 << 20] {
        let length = u32::try_from(limit + 1).unwrap();
        let mut input = BytesMut::from(&length.to_be_bytes()[..]);
        assert_eq!(take(&mut input, limit), Err(FrameError::TooLong { length: limit + 1, limit }));
        let mut longest = BytesMut::from(&u32::try_from(limit).unwrap().to_be_bytes()[..]);
        longest.resize(4 + limit, 7);
        assert_eq!(
            take(&mut longest, limit).unwrap().map(|frame| frame.len()),
            Some(limit),
            "as long as may be"
        );
    }
    assert_eq!(take(&mut BytesMut::from(&[0, 0, 0, 0][..]), 10), Err(FrameError::Empty));
}

#[test]
fn every_shortened_frame_and_every_foreign_tag_is_an_error_not_a_panic() {
    for frame in all() {
        let mut out = BytesMut::new();
        frame.put(&mut out);
        let body = out.split_off(PREFIX);
        if body.len() > 10_000 {
            continue;
        }
        for cut in 0..body.len() {
            assert!(Frame::get(&body[..cut]).is_err(), "{frame:?} cut to {cut}");
        }
    }
    assert_eq!(Frame::get(&[200, 1, 2]), Err(FrameError::UnknownTag(200)));
    assert!(Frame::get(&[3, 0xff, 0xff, 0xff]).is_err());
}

#[test]
fn bytes_behind_the_payload_are_an_error() {
    let mut out = BytesMut::new();
    Frame::Message { channel: "c", body: b"x" }.put(&mut out);
    out.put_u8(0);
    assert_eq!(Frame::get(&out[PREFIX..]), Err(FrameError::Malformed(3)));
}

#[test]
fn pieces_become_their_message_again() {
    let mut assembly = Assembly::default();
    assert_eq!(assembly.add("c", 4, b"ab", 6), Ok(None));
    assert_eq!(assembly.add("c", 2, b"cd", 6), Ok(None));
    assert_eq!(assembly.add("c", 0, b"ef", 6), Ok(Some(("c".into(), Bytes::from_static(b"abcdef")))));
    assert_eq!(assembly.add("d", 0, b"", 6), Ok(Some(("d".into(), Bytes::new()))));
}

#[test]
fn pieces_that_are_too_many_or_do_not_fit_are_refused() {
    assert!(Assembly::default().add("c", 5, b"ab", 6).is_err(), "announces more than the limit");
    assert!(Assembly::default().add("c", u32::MAX, b"ab", 6).is_err());
    assert!(Assembly::default().add("c", 5, b"", 6).is_err(), "an empty piece that is not the last");
    let mut assembly = Assembly::default();
    assert_eq!(assembly.add("c", 4, b"ab", 6), Ok(None));
    assert!(assembly.clone().add("d", 2, b"cd", 6).is_err(), "another channel");
    assert!(assembly.clone().add("c", 4, b"cd", 6).is_err(), "more than announced");
    assert!(assembly.add("c", 1, b"cd", 6).is_err(), "less than announced");
}

#[test]
fn headers_cost_a_byte_where_there_are_none_and_what_is_wrong_with_them_is_said() {
    let cast = |headers| {
        let mut out = BytesMut::new();
        Frame::Cast { to: 1, kind: 2, headers, variant: "A", args: b"" }.put(&mut out);
        out.split_off(PREFIX)
    };
    // The tag, the array, two numbers, the headers, the variant, the arguments.
    assert_eq!(cast(Headers::NONE).as_ref(), [5, 0x95, 1, 2, 0xc0, 0xa1, b'A', 0xc4, 0]);
    let read = |headers: &[u8]| {
        let mut out = BytesMut::from(&[5][..]);
        pack(&mut out, &(1_u64, 2_u64, Some(Blob::new(headers)), "A", Blob::new(b"")));
        Frame::get(&out).map(drop)
    };
    assert_eq!(read(b"\x80"), Ok(()), "none, said at length");
    let why = HeaderFault::Malformed;
    assert_eq!(read(b"\x81\xa1a"), Err(FrameError::Headers { tag: 5, why }));
}

#[test]
fn a_frame_is_announced_with_its_parts_and_little_more() {
    let long = "x".repeat(500);
    let (text, bytes) = (long.as_str(), long.as_bytes());
    let packed = [&b"\x81\xa1a\xc5\x03\xe8"[..], &[7; 1000]].concat();
    let headers = Headers::read(&packed).unwrap();
    let (to, kind, tag, timeout_ms, none) = (u64::MAX, u64::MAX, u64::MAX, Some(u64::MAX), Headers::NONE);
    for (frame, parts) in [
        (Frame::Ping, 0),
        (Frame::Read(u32::MAX), 0),
        (Frame::Message { channel: text, body: b"" }, 500),
        (Frame::Message { channel: text, body: bytes }, 1000),
        (Frame::Piece { channel: text, rest: u32::MAX, body: bytes }, 1000),
        (Frame::Cast { to, kind, headers, variant: text, args: bytes }, packed.len() + 1000),
        (Frame::Cast { to, kind, headers: none, variant: text, args: b"" }, 500),
        (Frame::Call { to, kind, tag, timeout_ms, headers, variant: text, args: bytes }, packed.len() + 1000),
        (Frame::CastAll { to: bytes, kind, headers, variant: text, args: bytes }, packed.len() + 1500),
        (Frame::CastAll { to: bytes, kind, headers: none, variant: text, args: b"" }, 1000),
        (Frame::Reply { tag, body: bytes }, 500),
        (Frame::Ended { to, kind, how: How::Stopped(Some(text)) }, 500),
        (Frame::Ended { to, kind, how: How::Failed(text) }, 500),
        (Frame::Ended { to, kind, how: How::Stopped(None) }, 0),
    ] {
        assert_eq!(frame.length(), 64 + parts, "{frame:?}");
        let mut out = BytesMut::new();
        frame.put(&mut out);
        assert!((parts + 5..=frame.length()).contains(&out.len()), "{frame:?}");
    }
}

#[test]
fn a_piece_may_be_of_one_byte_and_an_empty_one_is_the_last() {
    let mut assembly = Assembly::default();
    assert_eq!(assembly.add("c", 1, b"a", 6), Ok(None));
    assert_eq!(assembly.add("c", 0, b"b", 6), Ok(Some(("c".into(), Bytes::from_static(b"ab")))));
    assert_eq!(assembly.add("c", 1, b"", 6), Err("an empty piece"));
}
