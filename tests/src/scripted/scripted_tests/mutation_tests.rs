//! The rules against requests that nobody would write: they answer, whatever comes, and always the same.

use super::turn::{answer, opening};
use super::{anthropic, openai};
use crate::scripted::{Answer, Dialect, Ledger, Refusal, Rules, refusal};
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::Index;
use serde_json::{Value, json};

/// A conversation of two answers, and what is known of it.
fn conversation(dialect: Dialect, rules: &Rules) -> (Value, Ledger) {
    let (mut request, mut ledger) = (opening(dialect, "hi"), Ledger::default());
    for number in 1..=2 {
        let id = format!("c{number}");
        let scripted =
            Answer::new().thought("hm").text("I look.").tool_use(&id, "read_file", json!({"path": "x"}));
        let body = scripted.body_to(dialect, &request, rules);
        ledger.record(dialect, &request, &body);
        let result = match dialect {
            Dialect::Anthropic => anthropic::user([anthropic::result(&id)]),
            Dialect::OpenAi => openai::result(&id),
        };
        request["messages"].as_array_mut().unwrap().extend([answer(dialect, &body), result]);
    }
    (request, ledger)
}

/// How many values a value holds, itself included.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.values().map(size).sum::<usize>(),
        _ => 0,
    }
}

/// The value with this number, depth first.
fn numbered<'a>(value: &'a mut Value, number: &mut usize) -> Option<&'a mut Value> {
    if *number == 0 {
        return Some(value);
    }
    *number -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| numbered(item, number)),
        Value::Object(fields) => fields.values_mut().find_map(|field| numbered(field, number)),
        _ => None,
    }
}

#[derive(Clone, Debug)]
enum Change {
    Replace(Value),
    /// Of a list or an object, the item with this number.
    Remove(Index),
    Repeat(Index),
    Swap(Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    let odd = prop_oneof![
        Just(Value::Null),
        Just(json!("")),
        Just(json!(" ")),
        Just(json!({})),
        Just(json!([])),
        Just(json!([null])),
        Just(json!(-1)),
        Just(json!("assistant")),
        Just(json!({"type": "thinking", "thinking": "x", "signature": "sealed.x.y.z.w"})),
    ];
    prop_oneof![
        odd.prop_map(Change::Replace),
        any::<Index>().prop_map(Change::Remove),
        any::<Index>().prop_map(Change::Repeat),
        any::<(Index, Index)>().prop_map(|(a, b)| Change::Swap(a, b)),
    ]
}

fn apply(value: &mut Value, change: Change) {
    match (value, change) {
        (value, Change::Replace(new)) => *value = new,
        (Value::Array(items), Change::Remove(at)) if !items.is_empty() => {
            items.remove(at.index(items.len()));
        }
        (Value::Array(items), Change::Repeat(at)) if !items.is_empty() => {
            let again = items[at.index(items.len())].clone();
            items.push(again);
        }
        (Value::Array(items), Change::Swap(a, b)) if !items.is_empty() => {
            let (a, b) = (a.index(items.len()), b.index(items.len()));
            items.swap(a, b);
        }
        (Value::Object(fields), Change::Remove(at)) if !fields.is_empty() => {
            let name = fields.keys().nth(at.index(fields.len())).cloned().unwrap();
            fields.remove(&name);
        }
        (Value::Object(fields), Change::Repeat(at)) if !fields.is_empty() => {
            let field = fields.values().nth(at.index(fields.len())).cloned().unwrap();
            fields.insert("another".into(), field);
        }
        _ => {}
    }
}

fn refused(dialect: Dialect, request: &Value, rules: &Rules, ledger: &Ledger) -> Option<Refusal> {
    refusal(dialect, request.to_string().as_bytes(), rules, ledger)
}

proptest! {
    #[test]
    fn rules_answer_whatever_comes(
        dialect in prop_oneof![Just(Dialect::Anthropic), Just(Dialect::OpenAi)],
        strict in any::<bool>(),
        changes in proptest::collection::vec((any::<Index>(), change()), 0..4),
    ) {
        let rules = Rules { thought_signatures: strict, require_reasoning: strict, ..Rules::default() };
        let (mut request, ledger) = conversation(dialect, &rules);
        prop_assert_eq!(refused(dialect, &request, &rules, &ledger), None);
        for (at, change) in changes {
            let mut number = at.index(size(&request));
            apply(numbered(&mut request, &mut number).unwrap(), change);
        }
        let first = refused(dialect, &request, &rules, &ledger);
        prop_assert_eq!(&first, &refused(dialect, &request, &rules, &ledger));
        if let Some(first) = first {
            prop_assert!((400..500).contains(&first.status) && !first.message.is_empty() && !first.switched);
        }
    }
}
