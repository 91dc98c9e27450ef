//! Tables of requests: broken ones, each with its name and what it is refused with, and sound ones.

use super::wire::ask_in;
use crate::scripted::{Answer, Dialect, Ledger, Rules, ScriptedModel, refusal};
use serde_json::Value;
use std::collections::BTreeSet;

/// Name, body, and a part of the text that it is refused with.
pub(super) type Broken = (&'static str, Value, &'static str);

/// Each is refused with 400 in the same words by the function and by the server, and never reaches the script.
pub(super) fn all_refused(dialect: Dialect, rules: &Rules, cases: &[Broken], shape: impl Fn(&Value)) {
    let server = ScriptedModel::with([Answer::saying("never sent")]);
    server.expect_violations();
    server.rules(|theirs| theirs.clone_from(rules));
    let names: BTreeSet<&str> = cases.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names.len(), cases.len(), "names are given twice");
    for (name, body, expected) in cases {
        let bytes = serde_json::to_vec(body).unwrap();
        let Some(refused) = refusal(dialect, &bytes, rules, &Ledger::default()) else {
            panic!("{name} was taken: {body}");
        };
        assert_eq!(refused.status, 400, "{name}: {refused}");
        assert!(
            refused.message.contains(expected),
            "{name}: {:?} does not say {expected:?}",
            refused.message
        );
        let reply = ask_in(&server, dialect, body);
        assert_eq!((reply.status, reply.json()), (400, refused.body()), "{name}");
        shape(&reply.json());
    }
    assert_eq!(server.unused_answers(), 1);
    assert_eq!(server.requests().len(), cases.len());
}

/// Each is taken by the function and by the server.
pub(super) fn all_taken(dialect: Dialect, rules: &Rules, cases: &[(&str, Value)]) {
    let server = ScriptedModel::start();
    server.rules(|theirs| theirs.clone_from(rules));
    server.respond_with(|_| Answer::saying("yes"));
    for (name, body) in cases {
        let refused = refusal(dialect, &serde_json::to_vec(body).unwrap(), rules, &Ledger::default());
        assert_eq!(refused, None, "{name}");
        assert_eq!(ask_in(&server, dialect, body).status, 200, "{name}");
    }
    server.assert_no_violations();
}
