//! Which ids are kept, and what becomes of the others.

use super::*;
use crate::event::{CallIdForm, ChatForm, Dialect, Price, ThinkingForm};
use proptest::prelude::*;

fn profile(dialect: Dialect, call_ids: CallIdForm) -> ModelProfile {
    ModelProfile {
        provider: "p".into(),
        model: "m".into(),
        dialect,
        context_window: 1,
        max_output_tokens: 1,
        thinking: ThinkingForm::Omit,
        parallel_tool_calls: true,
        cache_markers: false,
        price: Price::default(),
        price_unknown: false,
        chat: ChatForm { call_ids, ..ChatForm::default() },
        window_is_guess: false,
    }
}

fn targets() -> [ModelProfile; 3] {
    [
        profile(Dialect::Anthropic, CallIdForm::Any),
        profile(Dialect::OpenAiChat, CallIdForm::Any),
        profile(Dialect::OpenAiChat, CallIdForm::NineAlphanumeric),
    ]
}

#[test]
fn an_id_that_the_server_takes_is_kept() {
    let (y40, y41, y64, y65) = ("y".repeat(40), "y".repeat(41), "y".repeat(64), "y".repeat(65));
    // The id, and whether Anthropic, Chat Completions and Mistral keep it: first their own, then another's.
    let cases: [(&str, [bool; 3], [bool; 3]); 12] = [
        ("toolu_01A", [true, true, false], [true, true, false]),
        ("toolu_01", [true, true, false], [true, true, false]),
        ("m00000001", [true, true, true], [true, true, true]),
        ("", [false; 3], [false; 3]),
        ("functions.add:0", [false, true, false], [false, true, false]),
        ("é ü", [false, true, false], [false, true, false]),
        ("abc-efghi", [true, true, false], [true, true, false]),
        ("abcdefgh", [true, true, false], [true, true, false]),
        (&y40, [true, true, false], [true, true, false]),
        (&y41, [true, true, false], [true, false, false]),
        (&y64, [true, true, false], [true, false, false]),
        (&y65, [true, true, false], [false, false, false]),
    ];
    let answer = ModelCallId::new("m_1");
    for (id, own, foreign) in cases {
        for (at, target) in targets().iter().enumerate() {
            let kept = |own| CallIds::new(target).next(own, id, &answer, 0) == id;
            assert_eq!((kept(true), kept(false)), (own[at], foreign[at]), "{id:?} at {at}");
        }
    }
}

#[test]
fn made_ids_come_from_the_answer_and_the_place() {
    let (one, two) = (ModelCallId::new("m_01hf7yat00fc48gy95npkf0eht"), ModelCallId::new("m_2"));
    let [anthropic, chat, nine] = targets();
    for target in [anthropic, chat] {
        let mut ids = CallIds::new(&target);
        assert_eq!(ids.next(true, "", &one, 0), "call_m_01hf7yat00fc48gy95npkf0eht_0");
        assert_eq!(ids.next(true, "", &one, 11), "call_m_01hf7yat00fc48gy95npkf0eht_11");
        assert_eq!(ids.next(true, "", &two, 0), "call_m_2_0");
        // One that stood there before makes the made-up one give way, and the other way round.
        assert_eq!(ids.next(true, "call_m_2_1", &one, 2), "call_m_2_1");
        assert_eq!(ids.next(true, "", &two, 1), "call_m_2_1_1");
        assert_eq!(ids.next(true, "call_m_2_0", &two, 2), "call_m_2_2");
        // Whoever is spoken to next takes it as well.
        assert!("call_m_01hf7yat00fc48gy95npkf0eht_9999".len() <= 40);
    }
    let mut ids = CallIds::new(&nine);
    let (first, second) = (ids.next(false, "x", &one, 0), ids.next(false, "x", &one, 1));
    assert_eq!((first.as_ref(), second.as_ref()), ("V1MflMkDA", "gIKdLO4YH"));
    let again = nine_again(&first);
    assert_ne!(again, first);
}

/// The id of a call whose first choice is taken already.
fn nine_again(taken: &str) -> String {
    let answer = ModelCallId::new("m_01hf7yat00fc48gy95npkf0eht");
    let [.., nine] = targets();
    let mut ids = CallIds::new(&nine);
    assert_eq!(ids.next(true, taken, &ModelCallId::new("m_0"), 0), taken);
    let made = ids.next(false, "x", &answer, 0).into_owned();
    assert!(IdForm::Nine.takes(&made), "{made}");
    made
}

proptest! {
    #[test]
    fn ids_are_legal_and_unique_and_do_not_depend_on_what_follows(
        calls in proptest::collection::vec((any::<bool>(), "[a-c]{0,2}|m0000000[0-2]|call_m_[0-2]_[0-2]|[.é]|z{39,66}"), 0..30),
        cut in 0..30_usize,
        target in 0..3_usize,
    ) {
        let target = &targets()[target];
        let answers: Vec<ModelCallId> = (0..3).map(|no| ModelCallId::new(format!("m_{no}"))).collect();
        let map = |calls: &[(bool, String)]| -> Vec<String> {
            let mut ids = CallIds::new(target);
            let mapped = calls.iter().enumerate();
            mapped.map(|(at, (own, id))| ids.next(*own, id, &answers[at / 10], at % 10).into_owned()).collect()
        };
        let all = map(&calls);
        let unique: BTreeSet<&String> = all.iter().collect();
        prop_assert_eq!(unique.len(), all.len());
        prop_assert!(all.iter().all(|id| IdForm::of(target).takes(id)));
        let cut = cut.min(calls.len());
        let before = map(&calls[..cut]);
        prop_assert_eq!(before.as_slice(), &all[..cut]);
    }
}
