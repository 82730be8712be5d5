use super::{
    Era, Revision, code,
    method::{self, Kind, Mirror, Modern},
};

#[test]
fn names_round_trip_in_order() {
    let mut previous = None;
    for revision in Revision::ALL {
        assert_eq!(Revision::parse(revision.as_str().as_bytes()), Some(revision));
        assert!(previous < Some(revision), "{revision}");
        previous = Some(revision);
    }
    for odd in ["", "2025-03-27", "2025-11-25 ", "DRAFT-2026-v1", "v999.0.0"] {
        assert_eq!(Revision::parse(odd.as_bytes()), None, "{odd:?}");
    }
}

#[test]
fn initialize_never_answers_a_modern_version() {
    for (requested, want) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-10-07", "2024-11-05"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        assert_eq!(Revision::negotiate_legacy(requested).as_str(), want, "{requested:?}");
    }
}

#[test]
fn features_by_revision() {
    type Feature = fn(Revision) -> bool;
    let table: [(&str, Feature, [bool; 5]); 12] = [
        ("batches", Revision::batches, [false, true, false, false, false]),
        ("streamable_http", Revision::streamable_http, [false, true, true, true, true]),
        ("priming", Revision::priming, [false, false, false, true, false]),
        ("version_header", Revision::version_header_required, [false, false, true, true, true]),
        ("audio", Revision::audio, [false, true, true, true, true]),
        ("structured", Revision::structured_content, [false, false, true, true, true]),
        ("resource_link", Revision::resource_link, [false, false, true, true, true]),
        ("elicitation", Revision::elicitation, [false, false, true, true, true]),
        ("url_elicitation", Revision::url_elicitation, [false, false, false, true, true]),
        ("elicitation_ids", Revision::elicitation_ids, [false, false, false, true, false]),
        ("core_tasks", Revision::core_tasks, [false, false, false, true, false]),
        ("mirrored_headers", Revision::mirrored_headers, [false, false, false, false, true]),
    ];
    for (name, feature, want) in table {
        assert_eq!(Revision::ALL.map(feature), want, "{name}");
    }
    assert_eq!(Revision::ALL.map(|r| r.era() == Era::Modern), [false, false, false, false, true]);
}

#[test]
fn modern_status_follows_the_code() {
    for (error, want) in [
        (-32700, 400),
        (-32600, 400),
        (-32601, 404),
        (-32602, 200),
        (-32603, 200),
        (-32020, 400),
        (-32021, 400),
        (-32022, 400),
        (-1, 200),
    ] {
        assert_eq!(code::modern_status(error), want, "{error}");
    }
    assert!(
        code::is_forbidden_modern(-32000) && code::is_forbidden_modern(-32002) && code::is_forbidden_modern(-32042)
    );
    assert!(!code::is_forbidden_modern(-32020) && !code::is_forbidden_modern(-32603));
}

fn names(keep: impl Fn(&method::MethodFacts) -> bool) -> Vec<&'static str> {
    let mut names: Vec<_> = method::ALL.iter().filter(|facts| keep(facts)).map(|facts| facts.name).collect();
    names.sort_unstable();
    names
}

#[test]
fn the_closed_lists_are_those_of_the_specification() {
    assert_eq!(
        names(|f| f.modern == Modern::Request),
        [
            "completion/complete",
            "prompts/get",
            "prompts/list",
            "resources/list",
            "resources/read",
            "resources/templates/list",
            "server/discover",
            "subscriptions/listen",
            "tools/call",
            "tools/list",
        ]
    );
    assert_eq!(names(|f| f.modern == Modern::TasksExtension), ["tasks/cancel", "tasks/get", "tasks/update"]);
    assert_eq!(names(|f| f.input_required), ["prompts/get", "resources/read", "tools/call"]);
    assert_eq!(
        names(|f| f.cacheable),
        [
            "prompts/list",
            "resources/list",
            "resources/read",
            "resources/templates/list",
            "server/discover",
            "tools/list"
        ]
    );
    assert_eq!(names(|f| f.mirror == Some(Mirror::Name)), ["prompts/get", "tools/call"]);
    assert_eq!(names(|f| f.mirror == Some(Mirror::Uri)), ["resources/read"]);
    assert_eq!(names(|f| f.mirror == Some(Mirror::TaskId)), ["tasks/cancel", "tasks/get", "tasks/update"]);
    assert_eq!(
        names(|f| f.modern == Modern::Removed && f.kind == Kind::Request),
        [
            "initialize",
            "logging/setLevel",
            "ping",
            "resources/subscribe",
            "resources/unsubscribe",
            "tasks/list",
            "tasks/result"
        ]
    );
}

#[test]
fn lookup_agrees_with_the_table() {
    for entry in method::ALL {
        assert_eq!(method::facts(entry.name.as_bytes()), Some(entry), "{}", entry.name);
        assert_eq!(entry.kind == Kind::Notification, entry.name.starts_with("notifications/"), "{}", entry.name);
    }
    for odd in [&b"tools/Call"[..], b"tools/call ", b"", b"\xff\xfe", b"unknown/method"] {
        assert_eq!(method::facts(odd), None, "{odd:?}");
    }
}
