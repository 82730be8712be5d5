use super::*;

fn args(text: &'static str) -> Args {
    Args::new(Some(Raw::from_static(text))).unwrap()
}

/// What a reader says: the value, or the refusal.
fn show<T: std::fmt::Debug>(checked: Checked<T>) -> String {
    match checked {
        Ok(value) => format!("{value:?}"),
        Err(failure) => format!("{}: {}", failure.code, failure.message),
    }
}

#[test]
fn a_refusal_names_the_argument_what_was_wrong_and_what_is_allowed() {
    let given = args(
        r#"{"text":"a\u0062","empty":"","number":7,"float":5.0,"half":0.5,"big":1000,"minus":-1,"flag":true,
            "word":"up","list":["a","b"],"odd":["a",1],"map":{"k":"v","x":"y"},"bad":{"k":1},"null":null,"object":{"a":1.50}}"#,
    );
    let words = ["up", "down"];
    for (got, want) in [
        (show(given.text("text")), r#""ab""#),
        (show(given.text("missing")), "INVALID_ARGUMENT: argument 'missing' is required"),
        (show(given.text("null")), "INVALID_ARGUMENT: argument 'null' is required"),
        (show(given.text("empty")), "INVALID_ARGUMENT: argument 'empty' must not be empty"),
        (show(given.text("number")), "INVALID_ARGUMENT: argument 'number' must be a string, not 7"),
        (show(given.maybe_text("missing")), "None"),
        (show(given.integer("number", 1..=10)), "Some(7)"),
        (show(given.integer("float", 1..=10)), "Some(5)"),
        (show(given.integer("missing", 1..=10)), "None"),
        (
            show(given.integer("big", 1..=10)),
            "INVALID_ARGUMENT: argument 'big' must be an integer from 1 to 10, not 1000",
        ),
        (
            show(given.integer("minus", 1..=10)),
            "INVALID_ARGUMENT: argument 'minus' must be an integer from 1 to 10, not -1",
        ),
        (
            show(given.integer("half", 0..=10)),
            "INVALID_ARGUMENT: argument 'half' must be an integer from 0 to 10, not 0.5",
        ),
        (
            show(given.integer("text", 1..=10)),
            r#"INVALID_ARGUMENT: argument 'text' must be an integer from 1 to 10, not "a\u0062""#,
        ),
        (show(given.number("half", 0.0..=1.0)), "Some(0.5)"),
        (
            show(given.number("number", 0.0..=1.0)),
            "INVALID_ARGUMENT: argument 'number' must be a number from 0 to 1, not 7",
        ),
        (show(given.flag("flag", false)), "true"),
        (show(given.flag("missing", true)), "true"),
        (show(given.flag("number", true)), "INVALID_ARGUMENT: argument 'number' must be true or false, not 7"),
        (show(given.word("word", &words)), r#"Some("up")"#),
        (
            show(given.word("text", &words)),
            r#"INVALID_ARGUMENT: argument 'text' must be one of up, down, not "a\u0062""#,
        ),
        (show(given.need_word("missing", &words)), "INVALID_ARGUMENT: argument 'missing' is required: one of up, down"),
        (show(given.texts("list")), r#"Some(["a", "b"])"#),
        (show(given.texts("odd")), "INVALID_ARGUMENT: argument 'odd' must be an array of strings, not an array"),
        (show(given.words("list", &["a", "b", "c"])), r#"Some(["a", "b"])"#),
        (show(given.words("list", &["a"])), "INVALID_ARGUMENT: argument 'list' may only hold a"),
        (show(given.text_map("map")), r#"Some([("k", "v"), ("x", "y")])"#),
        (show(given.text_map("bad")), "INVALID_ARGUMENT: argument 'bad' must be an object whose values are strings"),
        (show(given.object("list")), "INVALID_ARGUMENT: argument 'list' must be an object, not an array"),
        (show(given.millis("number", 0..=10)), "Some(7ms)"),
    ] {
        assert_eq!(got, want);
    }
    assert_eq!(given.object("object").unwrap().unwrap().as_str(), r#"{"a":1.50}"#);
}

#[test]
fn what_is_no_object_and_what_is_given_twice_is_refused() {
    let refused = |text: &'static str| Args::new(Some(Raw::from_static(text))).unwrap_err().message;
    assert_eq!(refused("[1]"), "the arguments must be a JSON object");
    assert_eq!(refused(r#"{"a":1,"\u0061":2}"#), "argument 'a' is given twice");
    assert!(Args::new(None).unwrap().raw("x").is_none());
    assert!(Args::new(Some(Raw::from_static("null"))).is_ok());
}
