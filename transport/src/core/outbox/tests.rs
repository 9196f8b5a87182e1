use super::*;
use crate::core::frame::take;

fn outbox(limits: LinkLimits) -> Outbox {
    Outbox::new(LinkId(1), limits)
}

fn small() -> LinkLimits {
    LinkLimits { frame: 100 << 10, control_queue: 1000, bulk_queue: 200 << 10, ..LinkLimits::default() }
}

/// One write, as short descriptions of its frames.
fn written(outbox: &mut Outbox) -> Vec<String> {
    let mut batch = BytesMut::new();
    outbox.next(&mut batch);
    let mut frames = Vec::new();
    while let Some(frame) = take(&mut batch, 1 << 30).unwrap() {
        frames.push(match Frame::get(&frame).unwrap() {
            Frame::Message { channel, .. } => channel.to_owned(),
            Frame::Piece { channel, rest, .. } => format!("{channel}+{}", rest >> 10),
            Frame::Farewell(why) => format!("{why:?}"),
            other => format!("{other:?}"),
        });
    }
    assert!(batch.is_empty(), "whole frames only");
    frames
}

fn send(outbox: &mut Outbox, lane: Lane, channel: &str, length: usize) -> Result<(), SendError> {
    outbox.send(lane, channel, vec![0; length].into())
}

#[test]
fn a_control_message_waits_for_at_most_one_piece_of_bulk() {
    let mut outbox = outbox(small());
    send(&mut outbox, Lane::Bulk, "b", 64 << 10).unwrap();
    send(&mut outbox, Lane::Control, "c1", 10).unwrap();
    send(&mut outbox, Lane::Control, "c2", 10).unwrap();
    assert_eq!(written(&mut outbox), ["c1", "c2", "b+48"]);
    assert_eq!(written(&mut outbox), ["b+32"]);
    send(&mut outbox, Lane::Control, "c3", 10).unwrap();
    assert_eq!(written(&mut outbox), ["c3", "b+16"]);
    assert_eq!(written(&mut outbox), ["b+0"]);
    assert_eq!(outbox.next(&mut BytesMut::new()), Next::Wait);
}

#[test]
fn bulk_goes_out_in_the_order_in_which_it_was_queued() {
    let mut outbox = outbox(small());
    for channel in ["b1", "b2", "b3"] {
        send(&mut outbox, Lane::Bulk, channel, 20 << 10).unwrap();
    }
    let frames: Vec<_> = (0..6).flat_map(|_| written(&mut outbox)).collect();
    assert_eq!(frames, ["b1+4", "b1+0", "b2+4", "b2+0", "b3+4", "b3+0"]);
    assert_eq!(outbox.queued(), (0, 0));
}

#[test]
fn bulk_stays_within_the_window_of_what_the_peer_has_read() {
    // Up to its last byte.
    for bulk_window in [32 << 10, 40 << 10] {
        let mut outbox = outbox(LinkLimits { bulk_window, ..small() });
        send(&mut outbox, Lane::Bulk, "b", 64 << 10).unwrap();
        assert_eq!((written(&mut outbox), written(&mut outbox)), (vec!["b+48".into()], vec!["b+32".into()]));
        assert_eq!(outbox.next(&mut BytesMut::new()), Next::Wait);
        outbox.on_read(16 << 10).unwrap();
        assert_eq!(written(&mut outbox), ["b+16"]);
        assert!(outbox.clone().on_read((32 << 10) + 1).is_err(), "more than was sent");
        outbox.on_read(32 << 10).unwrap();
    }
    // If nothing is under way, a piece goes out however narrow the window is.
    let mut outbox = outbox(LinkLimits { bulk_window: 1, ..small() });
    send(&mut outbox, Lane::Bulk, "b", 64 << 10).unwrap();
    assert_eq!(written(&mut outbox), ["b+48"]);
    assert_eq!(outbox.next(&mut BytesMut::new()), Next::Wait);
}

#[test]
fn a_full_lane_refuses_and_the_other_lane_does_not_care() {
    let mut outbox = outbox(small());
    while send(&mut outbox, Lane::Control, "c", 100).is_ok() {}
    let (control, _) = outbox.queued();
    assert!(control > 700);
    let full = SendError::QueueFull { queued: control, limit: 1000 };
    assert_eq!(send(&mut outbox, Lane::Control, "c", 200), Err(full));
    assert_eq!(outbox.queued().0, control, "nothing of it was queued");
    send(&mut outbox, Lane::Bulk, "b", 90 << 10).unwrap();
    send(&mut outbox, Lane::Bulk, "b", 90 << 10).unwrap();
    let full = SendError::QueueFull { queued: 180 << 10, limit: 200 << 10 };
    assert_eq!(send(&mut outbox, Lane::Bulk, "b", 90 << 10), Err(full));
    outbox.send_own(&Frame::Ping);
    assert!(written(&mut outbox).contains(&"Ping".to_owned()), "the link's own words always find room");
    assert_eq!(send(&mut outbox, Lane::Control, "c", 100), Ok(()), "there is room again");
}

#[test]
fn a_message_above_the_frame_limit_is_refused_in_both_lanes() {
    for lane in [Lane::Control, Lane::Bulk] {
        let refused = send(&mut outbox(small()), lane, "c", 100 << 10);
        assert!(matches!(refused, Err(SendError::TooLarge { limit, .. }) if limit == 100 << 10));
    }
}

#[test]
fn a_control_lane_longer_than_a_write_goes_out_whole_before_bulk() {
    let mut outbox = outbox(LinkLimits::default());
    send(&mut outbox, Lane::Bulk, "b", 10).unwrap();
    for _ in 0..100 {
        send(&mut outbox, Lane::Control, "c", 10_000).unwrap();
    }
    let mut bytes = BytesMut::new();
    let mut batch = BytesMut::new();
    while outbox.next(&mut batch) == Next::Write {
        assert!(batch.len() <= BATCH + 2 * FRAME_PIECE);
        bytes.unsplit(batch.split());
    }
    let mut order = Vec::new();
    while let Some(frame) = take(&mut bytes, 1 << 20).unwrap() {
        order.push(matches!(Frame::get(&frame).unwrap(), Frame::Message { .. }));
    }
    assert_eq!(order, [vec![true; 100], vec![false]].concat());
}

#[test]
fn goodbye_comes_after_everything_that_was_queued_and_nothing_is_taken_after_it() {
    let mut outbox = outbox(LinkLimits { bulk_window: 16 << 10, ..small() });
    send(&mut outbox, Lane::Bulk, "b", 32 << 10).unwrap();
    send(&mut outbox, Lane::Control, "c", 10).unwrap();
    outbox.close_after_all(Farewell::Leaving);
    assert_eq!(send(&mut outbox, Lane::Control, "late", 1), Err(SendError::NotUp { link: LinkId(1) }));
    outbox.send_own(&Frame::Ping);
    assert_eq!(written(&mut outbox), ["c", "b+16"]);
    assert_eq!(outbox.next(&mut BytesMut::new()), Next::Wait, "the window");
    outbox.on_read(16 << 10).unwrap();
    assert_eq!(written(&mut outbox), ["b+0", "Leaving"]);
    assert_eq!(outbox.next(&mut BytesMut::new()), Next::Close);
}

#[test]
fn a_dismissed_link_drops_what_it_has() {
    let mut outbox = outbox(small());
    send(&mut outbox, Lane::Control, "before", 10).unwrap();
    assert_eq!(written(&mut outbox), ["before"]);
    send(&mut outbox, Lane::Bulk, "b", 32 << 10).unwrap();
    send(&mut outbox, Lane::Control, "c", 10).unwrap();
    let mut broken = outbox.clone();
    outbox.close_with(Farewell::Evicted);
    assert_eq!(outbox.queued(), (0, 0));
    assert_eq!(written(&mut outbox), ["Evicted"]);
    assert_eq!(outbox.next(&mut BytesMut::new()), Next::Close);
    // A link that is broken says nothing more.
    broken.close();
    assert!(broken.queued() == (0, 0) && broken.bulk.is_empty(), "{broken:?}");
    assert_eq!(broken.next(&mut BytesMut::new()), Next::Close);
    outbox.close();
    outbox.close_with(Farewell::Broken);
    assert_eq!(outbox.next(&mut BytesMut::new()), Next::Close, "nobody hears any more");
}

#[test]
fn a_frame_that_is_half_written_goes_out_whole_before_the_goodbye() {
    for queued in 27..40 {
        let mut outbox = outbox(LinkLimits::default());
        for _ in 0..queued {
            send(&mut outbox, Lane::Control, "c", 10_007).unwrap();
        }
        send(&mut outbox, Lane::Bulk, "b", 10).unwrap();
        let (mut bytes, mut batch) = (BytesMut::new(), BytesMut::new());
        assert_eq!(outbox.next(&mut batch), Next::Write);
        assert!(batch.len() % (10_007 + 10) > 20, "the write ends inside a frame");
        bytes.unsplit(batch.split());
        outbox.close_with(Farewell::Broken);
        while outbox.next(&mut batch) == Next::Write {
            bytes.unsplit(batch.split());
        }
        let mut farewells = 0;
        while let Some(frame) = take(&mut bytes, 1 << 20).unwrap() {
            assert_eq!(farewells, 0, "nothing comes after the goodbye");
            match Frame::get(&frame).unwrap() {
                Frame::Message { channel: "c", body } => assert_eq!(body.len(), 10_007),
                Frame::Farewell(Farewell::Broken) => farewells += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(farewells == 1 && bytes.is_empty(), "{} bytes of no frame", bytes.len());
    }
}

#[test]
fn a_link_without_a_limit_is_never_overrun() {
    let mut outbox = outbox(LinkLimits { control_queue: usize::MAX, ..LinkLimits::default() });
    for _ in 0..100_000 {
        outbox.send_own(&Frame::Read(16 << 10));
    }
    assert!(outbox.queued().0 > ROOM_OF_LINK && !outbox.is_overrun());
}

#[test]
fn a_peer_that_asks_and_does_not_read_overruns_the_link_and_not_the_memory() {
    let limits = LinkLimits { control_queue: 8 << 10, frame: 1024, ..LinkLimits::default() };
    let mut outbox = Outbox::new(LinkId(1), limits);
    while outbox.send_frame(&Frame::Reply { tag: 1, body: &[0; 100] }).is_ok() {}
    assert!(!outbox.is_overrun(), "what others queue may be refused");
    let mut said = 0;
    while !outbox.is_overrun() {
        outbox.send_own(&Frame::Read(16 << 10));
        said += 1;
        assert!(said < 100_000);
    }
    assert!(said > 1000, "some slack");
    let (queued, _) = outbox.queued();
    for _ in 0..1000 {
        outbox.send_own(&Frame::Ping);
    }
    assert!(queued <= (8 << 10) + (64 << 10) + 100);
    assert_eq!(outbox.queued().0, queued);
}

#[test]
fn a_queue_is_used_to_its_last_byte_and_the_largest_message_fits_into_the_smallest() {
    let limits = LinkLimits { frame: 1024, control_queue: 1024, bulk_queue: 1024, bulk_window: 1, ..small() };
    let overhead = Frame::Message { channel: "c", body: b"" }.length();
    let largest = 1024 - overhead;
    for lane in [Lane::Control, Lane::Bulk] {
        let mut outbox = outbox(limits);
        let refused = send(&mut outbox, lane, "c", largest + 1);
        assert_eq!(refused, Err(SendError::TooLarge { length: 1025, limit: 1024 }));
        send(&mut outbox, lane, "c", largest).unwrap();
        assert!(matches!(send(&mut outbox, lane, "c", 1), Err(SendError::QueueFull { .. })));
    }
    // Of several that fit together, each counts what it takes.
    let mut bulk = outbox(limits);
    send(&mut bulk, Lane::Bulk, "c", 500).unwrap();
    let rest = largest - 500;
    assert_eq!(
        send(&mut bulk, Lane::Bulk, "c", rest + 1),
        Err(SendError::QueueFull { queued: 500, limit: 1024 })
    );
    send(&mut bulk, Lane::Bulk, "c", rest).unwrap();
    let mut control = outbox(limits);
    send(&mut control, Lane::Control, "c", 500).unwrap();
    let (queued, _) = control.queued();
    assert_eq!(
        send(&mut control, Lane::Control, "c", largest - queued + 1),
        Err(SendError::QueueFull { queued, limit: 1024 })
    );
    send(&mut control, Lane::Control, "c", largest - queued).unwrap();
    assert!(control.queued().0 <= 1024, "the limit is one");
}

#[test]
fn there_is_room_for_as_much_as_is_written_at_once_and_for_one_where_nothing_waits() {
    let limits = |control_queue| LinkLimits { control_queue, ..small() };
    assert_eq!(outbox(limits(1000)).room_for(100), 10);
    assert_eq!(outbox(limits(10 * BATCH)).room_for(1 << 10), BATCH >> 10);
    assert_eq!(outbox(limits(1000)).room_for(1001), 1);
    let mut busy = outbox(limits(1000));
    send(&mut busy, Lane::Control, "c", 400).unwrap();
    let (queued, _) = busy.queued();
    assert_eq!(busy.room_for(100), (1000 - queued) / 100);
    assert_eq!(busy.room_for(1000), 0);
    busy.close_with(Farewell::Leaving);
    assert_eq!(busy.room_for(1), 0, "nothing is said any more");
}

#[test]
fn what_the_link_itself_says_has_all_of_its_slack_and_no_more() {
    let mut outbox = outbox(LinkLimits { control_queue: 1024, ..small() });
    // That is room for a whole number of pings.
    let most = 1024 + (64 << 10);
    while outbox.queued().0 < most {
        outbox.send_own(&Frame::Ping);
        assert!(!outbox.is_overrun());
    }
    assert_eq!(outbox.queued().0, most);
    outbox.send_own(&Frame::Ping);
    assert_eq!((outbox.is_overrun(), outbox.queued().0), (true, most));
}

#[test]
fn after_a_burst_a_dismissed_link_drops_what_it_has_all_the_same() {
    let mut outbox = outbox(LinkLimits::default());
    for _ in 0..100 {
        send(&mut outbox, Lane::Control, "c", 10_000).unwrap();
    }
    let mut batch = BytesMut::new();
    while outbox.next(&mut batch) == Next::Write {
        batch.clear();
    }
    send(&mut outbox, Lane::Control, "late", 10).unwrap();
    outbox.close_with(Farewell::Evicted);
    assert_eq!(written(&mut outbox), ["Evicted"]);
}

#[test]
fn what_fits_into_one_write_goes_out_in_one_with_the_goodbye() {
    let mut outbox = outbox(LinkLimits::default());
    // A ping has 5 bytes and these have 6, so that they fill a write to its last byte.
    for _ in 0..4 {
        outbox.send_own(&Frame::Read(1));
    }
    while outbox.queued().0 < BATCH {
        outbox.send_own(&Frame::Ping);
    }
    assert_eq!(outbox.queued().0, BATCH);
    outbox.close_after_all(Farewell::Leaving);
    let mut batch = BytesMut::new();
    assert_eq!(outbox.next(&mut batch), Next::Write);
    assert!(batch.len() > BATCH, "the goodbye is with it");
    assert_eq!(outbox.next(&mut BytesMut::new()), Next::Close);
}

#[test]
fn one_byte_under_way_counts_for_the_window() {
    let mut outbox = outbox(LinkLimits { bulk_window: 1, ..small() });
    for channel in ["b1", "b2"] {
        send(&mut outbox, Lane::Bulk, channel, 1).unwrap();
    }
    assert_eq!(written(&mut outbox), ["b1+0"]);
    assert_eq!(outbox.next(&mut BytesMut::new()), Next::Wait);
    outbox.on_read(1).unwrap();
    assert_eq!(written(&mut outbox), ["b2+0"]);
}
