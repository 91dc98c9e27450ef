//! JSON text keeps its order and its characters.

use super::*;
use proptest::prelude::*;

#[test]
fn an_object_keeps_its_keys_in_order() {
    let text = r#"{ "z" : 1, "a":{"y":[1, 2]} ,"m":"\u00e9"}"#;
    let mut object = Object::parse(text).unwrap();
    assert_eq!(object.render(), r#"{"z":1,"a":{"y":[1, 2]},"m":"\u00e9"}"#);
    assert_eq!(object.text("m").as_deref(), Some("é"));
    assert_eq!(object.number("z"), Some(1));
    object.set("a", "null");
    object.set("new", "true");
    assert_eq!(object.get("a"), None);
    assert_eq!(object.render(), r#"{"z":1,"a":null,"m":"\u00e9","new":true}"#);
}

#[test]
fn a_key_that_comes_twice_is_one_key() {
    assert_eq!(Object::parse(r#"{"a":1,"b":2,"a":3}"#).unwrap().render(), r#"{"a":3,"b":2}"#);
    assert_eq!(repeated_key(r#"{"a":1,"b":2,"a":3}"#).as_deref(), Some("a"));
    assert_eq!(repeated_key(r#"{"a":{"a":1}}"#), None);
}

#[test]
fn only_objects_are_objects() {
    for text in ["", "1", "[]", "null", "\"a\"", "{", "{}}", "{\"a\"}"] {
        assert_eq!(Object::parse(text), None, "{text}");
    }
}

#[test]
fn null_and_absent_do_not_overwrite() {
    let mut usage = Object::parse(r#"{"input":5,"cache":7,"out":1}"#).unwrap();
    usage.overwrite_with(&Object::parse(r#"{"input":null,"out":9,"extra":{}}"#).unwrap());
    assert_eq!(usage.render(), r#"{"input":5,"cache":7,"out":9,"extra":{}}"#);
}

#[test]
fn halves_of_a_character_are_joined_across_pieces() {
    let mut text = Growing::default();
    text.push(&string_bytes(r#""a\ud83d""#).unwrap());
    assert_eq!(text.as_str(), "a");
    assert_eq!(text.push(&string_bytes(r#""\ude00b""#).unwrap()), 1);
    assert_eq!(text.as_str(), "a😀b");
    text.push(&string_bytes(r#""\ud83d""#).unwrap());
    text.push(&string_bytes(r#""x\ude00""#).unwrap());
    text.push(&string_bytes(r#""\ud83d""#).unwrap());
    text.close();
    assert_eq!(text.as_str(), "a😀b\u{fffd}x\u{fffd}\u{fffd}");
}

#[test]
fn only_strings_are_strings() {
    for raw in ["[97]", "1", "null", "{}"] {
        assert_eq!(string_bytes(raw), None, "{raw}");
    }
    assert_eq!(string_bytes(r#""\ud83d\ude00""#).unwrap(), "😀".as_bytes());
}

proptest! {
    #[test]
    fn quoting_is_what_everybody_reads(text in any::<String>()) {
        let ours = quoted(&text);
        prop_assert_eq!(&ours, &serde_json::to_string(&text).unwrap());
        prop_assert_eq!(serde_json::from_str::<String>(&ours).unwrap(), text);
    }

    #[test]
    fn growing_takes_any_bytes(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..8), 0..8)) {
        let mut text = Growing::default();
        for piece in &pieces {
            let at = text.push(piece);
            prop_assert!(text.as_str().is_char_boundary(at));
        }
        text.close();
        prop_assert!(std::str::from_utf8(text.as_str().as_bytes()).is_ok());
    }

    #[test]
    fn whole_characters_survive_any_pieces(text in any::<String>(), size in 1_usize..5) {
        let chars: Vec<char> = text.chars().collect();
        let mut grown = Growing::default();
        for piece in chars.chunks(size) {
            grown.push(piece.iter().collect::<String>().as_bytes());
        }
        grown.close();
        prop_assert_eq!(grown.as_str(), text);
    }
}

#[test]
fn fields_are_looked_into_without_being_copied() {
    let text = r#"{"a":1,"b":null,"c":"","a":{"x":"y"},"d":[1, {}]}"#;
    let fields = Fields::parse(text).unwrap();
    assert_eq!(fields.get("a"), Some(r#"{"x":"y"}"#), "the later value counts");
    assert_eq!((fields.get("b"), fields.text("c"), fields.text("d")), (None, None, None));
    assert_eq!(fields.object("a").and_then(|inner| inner.text("x")).as_deref(), Some("y"));
    assert_eq!(fields.iter().count(), 5);
    assert_eq!(list(fields.get("d").unwrap()).unwrap().len(), 2);
    assert!(list("{}").is_none() && Fields::parse("[]").is_none());
}

#[test]
fn what_later_readers_refuse_is_not_readable() {
    assert!(is_readable(r#"{"a":["é",1e300,null]}"#));
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for bad in [r#""\ud800""#, "1e999", &deep] {
        assert!(list(&format!("[{bad}]")).is_some() && !is_readable(bad), "{bad}");
    }
}

#[test]
fn half_a_character_in_json_stays_what_it_was() {
    let whole = |pieces: &[&str]| {
        let mut text = Growing::default();
        for piece in pieces {
            text.push_json(&string_bytes(piece).unwrap());
        }
        text.close();
        text.as_str().to_owned()
    };
    let half = whole(&[r#""{\"a\":\"x\ud83d""#, r#""y\"}""#]);
    assert_eq!(half, r#"{"a":"x\ud83dy"}"#);
    assert!(serde_json::from_str::<serde_json::Value>(&half).is_err(), "its reader refuses it");
    assert_eq!(
        whole(&[r#""{\"a\":\"\ud83d""#, r#""\ude00\"}""#]),
        "{\"a\":\"😀\"}",
        "halves in two pieces are whole"
    );
}
