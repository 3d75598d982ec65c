//! Every payload: its layout, the way there and back, and bytes that nobody meant.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;

use proptest::collection::vec as vectors;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

use super::*;
use crate::tests::for_all;
use crate::{ActorId, ExitReason, Failure, Level, Name, NodeId, Path};

const ACTOR: ActorId = ActorId::new(NodeId(0x0807_0605), 0x0403_0201);
/// How the actor is written.
const ACTOR_BYTES: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

fn actors() -> impl Strategy<Value = ActorId> {
    any::<u64>().prop_map(ActorId::from_u64)
}

fn names() -> impl Strategy<Value = Name> {
    prop_oneof!["[a-z]{1,63}", "[^/\0][^\0]{0,15}"].prop_map(|text: String| Name::new(&text).unwrap())
}

fn paths() -> impl Strategy<Value = Path> {
    prop_oneof!["(/[a-z]{1,20}){1,6}", "(/[^/\0]{1,7}){1,4}"]
        .prop_map(|text: String| Path::new(&text).unwrap())
}

fn reasons() -> impl Strategy<Value = ExitReason> {
    let texts = || "\\PC{0,30}";
    prop_oneof![
        select(vec![0, 1, 3, 5, 6, 7]).prop_map(|code| ExitReason::from_code(code).unwrap()),
        texts().prop_map(|text: String| ExitReason::Limit(text.into())),
        (texts(), texts(), texts()).prop_map(|(message, location, chain)| Failure {
            message,
            location,
            chain
        }
        .into()),
    ]
}

/// Values come back as they were, from `size` bytes (or more, where it varies), and from no other number of bytes.
fn round_trips<P: SystemPayload + PartialEq + Debug>(size: usize, values: impl Strategy<Value = P>) {
    for_all(values, |value| {
        let bytes = value.encode();
        assert!(bytes.len() == size || bytes.len() > size && [Kind::EXIT, Kind::DOWN].contains(&P::KIND));
        assert_eq!(P::decode(&bytes), Ok(value));
        let longer = [&bytes[..], &[0]].concat();
        for wrong in [&[][..], &bytes[..1], &bytes[..bytes.len() - 1], &longer] {
            let error = P::decode(wrong).unwrap_err();
            assert!(matches!(error.fault, Fault::Size { got, .. } if got == wrong.len()), "{error}");
            assert_eq!(error.kind, P::KIND);
        }
    });
    survives::<P>(size);
}

/// Any bytes are refused or have a value, which has bytes of its own.
fn survives<P: SystemPayload + PartialEq + Debug>(size: usize) {
    let bytes =
        || prop_oneof![3 => Just(0), 1 => 0..5u8, 1 => Just(b'/'), 1 => b'a'..=b'c', 1 => any::<u8>()];
    let sizes = prop_oneof![3 => Just(size), 1 => 0..size + 40];
    for_all(sizes.prop_flat_map(move |size| vectors(bytes(), size)), |bytes| {
        if let Ok(value) = P::decode(&bytes) {
            assert_eq!(P::decode(&value.encode()), Ok(value));
        }
    });
}

#[test]
fn timers_round_trip() {
    round_trips(16, any::<(u32, u64)>().prop_map(|(id, expirations)| Timer { id, expirations }));
}

#[test]
fn descriptors_round_trip() {
    round_trips(8, any::<(i32, u32)>().prop_map(|(fd, events)| FdEvent { fd, events }));
}

#[test]
fn lines_of_the_log_round_trip() {
    let values = (select(Level::ALL.to_vec()), actors(), "[^\0]{0,63}");
    round_trips(272, values.prop_map(|(level, source, text)| Log { level, source, text }));
}

#[test]
fn exits_of_children_round_trip() {
    round_trips(16, (actors(), any::<u8>()).prop_map(|(child, reason)| ChildExit { child, reason }));
}

#[test]
fn exits_round_trip() {
    round_trips(16, (actors(), reasons()).prop_map(|(actor, reason)| Exit { actor, reason }));
    round_trips(16, (actors(), reasons()).prop_map(|(actor, reason)| Down { actor, reason }));
}

#[test]
fn names_round_trip() {
    round_trips(72, (names(), actors()).prop_map(|(name, actor)| NameRegister { name, actor }));
    round_trips(64, names().prop_map(|name| NameUnregister { name }));
    round_trips(136, (paths(), actors()).prop_map(|(path, actor)| PathRegister { path, actor }));
    round_trips(128, paths().prop_map(|path| PathUnregister { path }));
}

#[test]
fn requests_to_the_namespace_round_trip() {
    round_trips(136, (paths(), actors()).prop_map(|(path, actor)| NsRegister { path, actor }));
    round_trips(128, paths().prop_map(|path| NsLookup { path }));
    round_trips(136, (paths(), actors()).prop_map(|(point, target)| NsMount { point, target }));
    round_trips(128, paths().prop_map(|point| NsUmount { point }));
    let prefixes = prop_oneof![
        Just(String::new()),
        Just("/".to_string()),
        paths().prop_map(|path| path.to_string()),
        "(/[a-z]{1,9}){1,4}/",
    ];
    round_trips(128, prefixes.prop_map(|prefix| NsList::new(&prefix).unwrap()));
}

#[test]
fn answers_of_the_namespace_round_trip() {
    let data = vectors(any::<u8>(), 0..=NsReply::MAX_DATA);
    let replies = (select(NsStatus::ALL.to_vec()), actors(), data);
    round_trips(
        1048,
        replies.prop_map(|(status, actor, data)| NsReply::new(status, actor).with_data(data).unwrap()),
    );
    let events = select(vec![NsEvent::Register, NsEvent::Unregister]);
    let notices = (paths(), actors(), events);
    round_trips(144, notices.prop_map(|(path, actor, event)| NsNotify { path, actor, event }));
}

/// Bytes at offsets, and 0 elsewhere.
fn laid_out(size: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; size];
    for (at, field) in fields {
        bytes[*at..at + field.len()].copy_from_slice(field);
    }
    bytes
}

#[test]
fn fields_are_where_guests_expect_them() {
    let (name, path) = (Name::new("n").unwrap(), Path::new("/p").unwrap());
    let (actor, child, source, target) = (ACTOR, ACTOR, ACTOR, ACTOR);

    let timer = Timer { id: 0x0403_0201, expirations: 5 };
    assert_eq!(timer.encode(), laid_out(16, &[(0, &[1, 2, 3, 4]), (8, &[5])]));
    let event = FdEvent { fd: -2, events: 0x0100 };
    assert_eq!(event.encode(), laid_out(8, &[(0, &[0xFE, 0xFF, 0xFF, 0xFF]), (5, &[1])]));
    let log = Log { level: Level::Error, source, text: "hi".into() };
    assert_eq!(log.encode(), laid_out(272, &[(0, &[3]), (8, &ACTOR_BYTES), (16, b"hi")]));
    let exit = ChildExit { child, reason: 1 };
    assert_eq!(exit.encode(), laid_out(16, &[(0, &ACTOR_BYTES), (8, &[1])]));

    let register = NameRegister { name: name.clone(), actor };
    assert_eq!(register.encode(), laid_out(72, &[(0, b"n"), (64, &ACTOR_BYTES)]));
    assert_eq!(NameUnregister { name }.encode(), laid_out(64, &[(0, b"n")]));
    let with_actor = laid_out(136, &[(0, b"/p"), (128, &ACTOR_BYTES)]);
    let alone = laid_out(128, &[(0, b"/p")]);
    assert_eq!(PathRegister { path: path.clone(), actor }.encode(), with_actor);
    assert_eq!(PathUnregister { path: path.clone() }.encode(), alone);
    assert_eq!(NsRegister { path: path.clone(), actor }.encode(), with_actor);
    assert_eq!(NsLookup { path: path.clone() }.encode(), alone);
    assert_eq!(NsList::new("/p").unwrap().encode(), alone);
    assert_eq!(NsMount { point: path.clone(), target }.encode(), with_actor);
    assert_eq!(NsUmount { point: path.clone() }.encode(), alone);
    let reply = NsReply::new(NsStatus::Invalid, actor).with_data("xyz").unwrap();
    let status = (-4i32).to_le_bytes();
    assert_eq!(reply.encode(), laid_out(1048, &[(0, &status), (8, &ACTOR_BYTES), (16, &[3]), (20, b"xyz")]));
    let notify = NsNotify { path, actor, event: NsEvent::Unregister };
    assert_eq!(notify.encode(), laid_out(144, &[(0, b"/p"), (128, &ACTOR_BYTES), (136, &[2])]));
}

#[test]
fn an_exit_without_texts_looks_like_that_of_a_child() {
    let exit = Exit { actor: ACTOR, reason: ExitReason::Shutdown };
    assert_eq!(exit.encode(), ChildExit { child: ACTOR, reason: 3 }.encode());
    let failure = Failure { message: "m".into(), location: "at".into(), chain: "abc".into() };
    let down = Down { actor: ACTOR, reason: failure.into() };
    let sizes = [1, 0, 2, 0, 3, 0];
    assert_eq!(down.encode(), laid_out(22, &[(0, &ACTOR_BYTES), (8, &[2]), (10, &sizes), (16, b"matabc")]));
}

#[test]
fn a_text_that_is_too_long_is_shortened_at_a_whole_character() {
    let log = Log { level: Level::Info, source: ACTOR, text: "é".repeat(200) };
    assert_eq!(Log::decode(&log.encode()).unwrap().text, "é".repeat(127));
    let failure = Failure { message: "é".repeat(40_000), location: "here".into(), chain: String::new() };
    let exit = Exit { actor: ACTOR, reason: failure.into() };
    let shortened = Failure { message: "é".repeat(32_767), location: "here".into(), chain: String::new() };
    assert_eq!(Exit::decode(&exit.encode()).unwrap().reason, shortened.into());
}

#[test]
fn a_line_of_the_log_arrives_whatever_is_in_it() {
    let log = Log { level: Level::Info, source: ACTOR, text: "a\0b".into() };
    assert_eq!(Log::decode(&log.encode()).unwrap().text, "a b");
    let broken = [&[b'x'; 254][..], &[0xC3]].concat();
    let bytes = laid_out(272, &[(16, &broken)]);
    assert_eq!(Log::decode(&bytes).unwrap().text, "x".repeat(254));
    let bytes = laid_out(272, &[(16, &[b'x', 0xFF, b'y'])]);
    assert_eq!(Log::decode(&bytes).unwrap().text, "x\u{FFFD}y");
}

#[test]
fn padding_and_what_follows_a_nul_are_not_read() {
    let mut timer = Timer { id: 1, expirations: 2 }.encode();
    timer[4..8].fill(0xFF);
    assert_eq!(Timer::decode(&timer), Ok(Timer { id: 1, expirations: 2 }));
    let name = Name::new("n").unwrap();
    let mut register = NameRegister { name: name.clone(), actor: ACTOR }.encode();
    register[2..64].fill(0xFF);
    assert_eq!(NameRegister::decode(&register), Ok(NameRegister { name, actor: ACTOR }));
}

#[test]
fn a_text_must_end_within_its_field() {
    let bytes = laid_out(72, &[(0, &[b'n'; 64])]);
    let fault = NameRegister::decode(&bytes).unwrap_err().fault;
    assert_eq!(fault, Fault::Unterminated("name"));
    let bytes = laid_out(272, &[(16, &[b'x'; 256])]);
    assert_eq!(Log::decode(&bytes).unwrap_err().fault, Fault::Unterminated("text"));
}

#[test]
fn texts_are_checked_as_names_and_paths_are() {
    let name = |text: &[u8]| NameUnregister::decode(&laid_out(64, &[(0, text)])).unwrap_err().fault;
    assert_eq!(name(b""), Fault::Name(NameError::Empty));
    assert_eq!(name(b"/n"), Fault::Name(NameError::IsAPath("/n".into())));
    assert_eq!(name(&[0xFF]), Fault::NotUtf8("name"));
    let list = |text: &str| NsList::decode(&laid_out(128, &[(0, text.as_bytes())]));
    assert_eq!(list("").unwrap().prefix(), "");
    assert_eq!(list("/").unwrap().prefix(), "/");
    assert_eq!(list("/a/").unwrap().prefix(), "/a");
    assert_eq!(list("a").unwrap_err().fault, Fault::Name(NameError::NotAPath("a".into())));
    for bad in ["//", "/a//", "a/", "\0"] {
        assert!(NsList::new(bad).is_err(), "{bad:?}");
    }
    assert!(NsList::new(&["/", &"p".repeat(126)].concat()).is_ok());
    assert!(NsList::new(&["/", &"p".repeat(126), "/"].concat()).is_ok());
    assert!(NsList::new(&["/", &"p".repeat(127)].concat()).is_err());
}

#[test]
fn numbers_that_stand_for_nothing_are_refused_by_name() {
    let number = |error: DecodeError| match error.fault {
        Fault::Number { field, got } => (field, got),
        other => panic!("{other}"),
    };
    assert_eq!(number(Log::decode(&laid_out(272, &[(0, &[4])])).unwrap_err()), ("level", 4));
    assert_eq!(number(Exit::decode(&laid_out(16, &[(8, &[8])])).unwrap_err()), ("reason", 8));
    assert_eq!(number(NsReply::decode(&laid_out(1048, &[(0, &[1])])).unwrap_err()), ("status", 1));
    let size = NsReply::decode(&laid_out(1048, &[(16, &[1, 4])])).unwrap_err();
    assert_eq!(
        size.to_string(),
        "the payload of a NS_REPLY message is malformed: its data_size cannot be 1025"
    );
    assert_eq!(number(size), ("data_size", 1025));
    let event = NsNotify::decode(&laid_out(144, &[(0, b"/p")])).unwrap_err();
    assert_eq!(number(event), ("event", 0));
}

#[test]
fn texts_of_an_exit_are_as_long_as_it_says() {
    for (sizes, texts) in [([1, 0, 0, 0, 0, 0], &b""[..]), ([0; 6], b"x"), ([0xFF; 6], b"xyz")] {
        let bytes = [&laid_out(16, &[(8, &[2]), (10, &sizes)])[..], texts].concat();
        assert!(matches!(Down::decode(&bytes).unwrap_err().fault, Fault::Size { .. }), "{sizes:?}");
    }
    let bytes = [&laid_out(16, &[(8, &[2]), (10, &[1, 0, 1, 0])])[..], "é".as_bytes()].concat();
    assert_eq!(Down::decode(&bytes).unwrap_err().fault, Fault::NotUtf8("message"));
}

#[test]
fn an_answer_that_does_not_fit_is_refused() {
    let error = NsReply::new(NsStatus::Ok, ACTOR).with_data(vec![0; 1025]).unwrap_err();
    assert_eq!(error, DataTooLong { size: 1025 });
    assert!(format!("{error}").contains("1024"), "{error}");
}
