use proptest::prelude::*;

use super::*;

fn who() -> Who {
    Who {
        principal: Principal::named("u_1"),
        subject: "alice".into(),
        domain: Some("example.test".into()),
        groups: vec!["staff".into()],
        client: "mcp_1".into(),
    }
}

fn admins() -> Rules {
    Rules { admins: People { groups: vec!["staff".into()], ..People::default() }, ..Rules::default() }
}

fn check(scopes: &str, rules: &Rules, method: &str, target: Target<'_>, want: &str) {
    let got = match decide(&who(), &Scopes::parse(scopes).unwrap(), rules, method, target) {
        Decision::Allow => "allow".to_owned(),
        Decision::Deny => "deny".to_owned(),
        Decision::StepUp { scopes } => scopes.to_string(),
    };
    assert_eq!(got, want, "{scopes:?} {method} {target:?}");
}

const OWN: Target<'static> = Target::Own { tool: None };
const ADD: Target<'static> = Target::Own { tool: Some("add_server") };
const GIT: Target<'static> = Target::Server { server: "git", tool: Some("log") };

#[test]
fn scopes_open_what_they_say_and_the_challenge_names_what_is_missing() {
    let open = Rules::default();
    check("mcp:read", &open, "tools/list", OWN, "allow");
    check("mcp:read", &open, "tools/call", GIT, "mcp:call");
    check("mcp:call", &open, "tools/call", GIT, "allow");
    check("mcp:call", &open, "resources/read", GIT, "allow");
    check("server:git", &open, "tools/call", GIT, "allow");
    check("server:git", &open, "initialize", OWN, "allow");
    check("server:hub", &open, "tools/call", GIT, "server:git");
    check("server:hub mcp:read", &open, "tools/call", GIT, "server:git");
    check("", &open, "tools/list", OWN, "mcp:read");
    check("mcp:read", &open, "no/such/method", GIT, "mcp:call");
}

#[test]
fn administration_needs_the_scope_and_a_rule_that_names_the_person() {
    check("mcp:admin", &Rules::default(), "tools/call", ADD, "deny");
    check("mcp:call", &admins(), "tools/call", ADD, "mcp:admin");
    check("server:git", &admins(), "tools/call", ADD, "mcp:admin");
    check("mcp:admin", &admins(), "tools/call", ADD, "allow");
    // Somebody who is no administrator any more keeps what is below.
    check("mcp:admin", &Rules::default(), "tools/call", GIT, "allow");
}

#[test]
fn rules_narrow_who_may_use_what() {
    let staff = People { groups: vec!["staff".into()], ..People::default() };
    let others = People { subjects: vec!["bob".into()], ..People::default() };
    let rule = |who: &People, servers: &str, tools: &str| Rule {
        who: Some(who.clone()),
        servers: vec![servers.into()],
        tools: vec![tools.into()],
    };
    let rules = Rules { permit: vec![rule(&staff, "g*", "l*g"), rule(&others, "*", "*")], ..Rules::default() };
    check("mcp:call", &rules, "tools/call", GIT, "allow");
    check("mcp:call", &rules, "tools/call", Target::Server { server: "git", tool: Some("push") }, "deny");
    check("mcp:call", &rules, "tools/list", Target::Server { server: "git", tool: None }, "allow");
    check("mcp:call", &rules, "tools/list", Target::Server { server: "hub", tool: None }, "deny");
    check("mcp:call", &rules, "tools/list", OWN, "allow");
}

#[test]
fn people_are_named_by_what_the_provider_vouches_for() {
    let by_domain = People { domains: vec!["EXAMPLE.test".into()], ..People::default() };
    assert!(by_domain.name(&who()));
    assert!(!by_domain.name(&Who { domain: None, ..who() }));
    assert!(!People::default().name(&who()));
    assert!(!Rules { allow: Some(People::default()), ..Rules::default() }.lets_in(&who()));
}

#[test]
fn several_requests_at_once_ask_for_all_they_need() {
    let needs = |text: &str| Decision::StepUp { scopes: Scopes::parse(text).unwrap() };
    assert_eq!(needs("mcp:call").and(Decision::Allow).and(needs("server:git")), needs("mcp:call server:git"));
    assert_eq!(needs("mcp:call").and(Decision::Deny), Decision::Deny);
}

#[test]
fn patterns_match_as_people_expect() {
    for (pattern, text, want) in [
        ("*", "", true),
        ("git", "git", true),
        ("git", "gits", false),
        ("g*t", "gt", true),
        ("g*t", "g", false),
        ("*a*b*", "xaxbx", true),
        ("*a*b", "ab", true),
        ("a*a", "a", false),
        ("", "", true),
        ("", "x", false),
    ] {
        assert_eq!(matches(pattern, text), want, "{pattern:?} {text:?}");
    }
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![
        Just(Scope::Read),
        Just(Scope::Call),
        Just(Scope::Admin),
        "[abc]".prop_map(|name| Scope::Server(name.into())),
    ]
}

fn request() -> impl Strategy<Value = (String, Option<String>, Option<String>)> {
    const METHODS: &[&str] = &["initialize", "tools/list", "tools/call", "resources/read", "tasks/cancel", "x/y"];
    const TOOLS: &[&str] = &["add_server", "list_tools", "execute_tool", "a"];
    (
        proptest::sample::select(METHODS).prop_map(str::to_owned),
        proptest::option::of("[abc]"),
        proptest::option::of(proptest::sample::select(TOOLS).prop_map(str::to_owned)),
    )
}

fn rank(decision: &Decision) -> u8 {
    match decision {
        Decision::Deny => 0,
        Decision::StepUp { .. } => 1,
        Decision::Allow => 2,
    }
}

fn target<'a>(server: Option<&'a str>, tool: Option<&'a str>) -> Target<'a> {
    match server {
        Some(server) => Target::Server { server, tool },
        None => Target::Own { tool },
    }
}

proptest! {
    #[test]
    fn one_more_scope_never_takes_anything_away(
        mine in proptest::collection::vec(scope(), 0..4), more in scope(), (method, server, tool) in request(), admin: bool,
    ) {
        let rules = if admin { admins() } else { Rules::default() };
        let to = target(server.as_deref(), tool.as_deref());
        let few: Scopes = mine.into_iter().collect();
        let before = decide(&who(), &few, &rules, &method, to);
        let after = decide(&who(), &few.with(more), &rules, &method, to);
        prop_assert!(rank(&before) <= rank(&after), "{before:?} {after:?}");
    }

    #[test]
    fn a_larger_scope_does_all_that_a_smaller_one_does(a in scope(), b in scope(), (method, server, tool) in request()) {
        let to = target(server.as_deref(), tool.as_deref());
        let with = |scope: &Scope| decide(&who(), &Scopes::default().with(scope.clone()), &admins(), &method, to);
        if a.includes(&b) {
            prop_assert!(rank(&with(&b)) <= rank(&with(&a)), "{a} {b}");
        }
    }

    #[test]
    fn what_a_challenge_asks_for_is_enough(
        mine in proptest::collection::vec(scope(), 0..4), (method, server, tool) in request(), admin: bool,
    ) {
        let rules = if admin { admins() } else { Rules::default() };
        let to = target(server.as_deref(), tool.as_deref());
        let scopes: Scopes = mine.into_iter().collect();
        if let Decision::StepUp { scopes: more } = decide(&who(), &scopes, &rules, &method, to) {
            let after = decide(&who(), &scopes.union(&more), &rules, &method, to);
            prop_assert_eq!(after, Decision::Allow);
        }
    }

    #[test]
    fn inclusion_is_an_order(a in scope(), b in scope(), c in scope()) {
        prop_assert!(a.includes(&a));
        prop_assert!(!(a.includes(&b) && b.includes(&c)) || a.includes(&c));
        prop_assert!(!(a.includes(&b) && b.includes(&a)) || a == b);
    }
}
