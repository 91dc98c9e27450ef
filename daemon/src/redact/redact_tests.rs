use super::*;
use proptest::prelude::*;

const SECRET: &str = "sk-ant-very/secret+key";

fn redactor() -> Redactor {
    Redactor::new([("anthropic", SECRET.as_bytes()), ("short", b"abc".as_slice())])
}

#[test]
fn a_secret_is_removed_in_every_form_it_may_be_written_in() {
    let url = "sk-ant-very%2Fsecret%2Bkey";
    let hex: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    // `printf %s "$SECRET" | base64`, and with one and two bytes before it.
    let forms = [
        SECRET.to_owned(),
        url.to_owned(),
        hex.to_uppercase(),
        hex,
        "c2stYW50LXZlcnkvc2VjcmV0K2tleQ==".to_owned(),
        "eHNrLWFudC12ZXJ5L3NlY3JldCtrZXk=".to_owned(),
        "eHhzay1hbnQtdmVyeS9zZWNyZXQra2V5".to_owned(),
    ];
    for form in forms {
        let found = redactor().redact(&format!("before {form} after"));
        assert_eq!(found.count, 1, "{form}");
        assert!(found.content.contains("[REDACTED:anthropic]"), "{}", found.content);
        assert!(found.content.starts_with("before ") && found.content.ends_with(" after"));
    }
}

#[test]
fn text_without_secrets_is_untouched_and_short_values_are_not_searched() {
    let text = "abc sk-ant-very/secret+ke é\u{202e}";
    assert_eq!(redactor().redact(text), Redacted { content: text.to_owned(), count: 0 });
    assert!(Redactor::new([("short", b"abc".as_slice())]).is_empty());
}

#[test]
fn the_name_of_the_secret_is_all_that_debugging_shows() {
    assert!(!format!("{:?}", redactor()).contains("secret"));
}

proptest! {
    #[test]
    fn a_stream_does_not_depend_on_its_chunks(
        parts in prop::collection::vec(prop::sample::select(&["x", "sk-ant-", SECRET, "sk-ant-very/secret+key", "\n"][..]), 0..12),
        cuts in prop::collection::vec(1_usize..40, 1..30),
    ) {
        let text = parts.concat();
        let redactor = redactor();
        let whole = redactor.redact_bytes(text.as_bytes());
        let (mut stream, mut out, mut rest) = (redactor.stream(), Vec::new(), text.as_bytes());
        for cut in cuts {
            let (chunk, left) = rest.split_at(cut.min(rest.len()));
            out.extend(stream.push(chunk));
            rest = left;
        }
        out.extend(stream.push(rest));
        let end = stream.finish();
        out.extend(end.content);
        prop_assert_eq!(&out, &whole.content);
        prop_assert_eq!(end.count, whole.count);
        prop_assert_eq!(redactor.redact_bytes(&out).count, 0);
    }
}
